/* libarchive, loaded when an archive is first asked for (base/late_library.h): it brings libxml2, ICU's 30 MB, the
 * run-time library of C++ and six others. Linked, they made every start of kigo take half as long again. */
#ifndef KIGO_BUNDLE_LIBARCHIVE_H
#define KIGO_BUNDLE_LIBARCHIVE_H

#include <archive.h>
#include <archive_entry.h>

#define KG_LIBARCHIVE_LIST(X)                                                                                          \
    X(entry_filetype)                                                                                                  \
    X(entry_free)                                                                                                      \
    X(entry_hardlink)                                                                                                  \
    X(entry_hardlink_utf8)                                                                                             \
    X(entry_new)                                                                                                       \
    X(entry_new2)                                                                                                      \
    X(entry_pathname)                                                                                                  \
    X(entry_set_filetype)                                                                                              \
    X(entry_set_mtime)                                                                                                 \
    X(entry_set_pathname)                                                                                              \
    X(entry_set_perm)                                                                                                  \
    X(entry_set_size)                                                                                                  \
    X(entry_size)                                                                                                      \
    X(entry_size_is_set)                                                                                               \
    X(entry_sparse_count)                                                                                              \
    X(entry_symlink)                                                                                                   \
    X(error_string)                                                                                                    \
    X(read_data_block)                                                                                                 \
    X(read_free)                                                                                                       \
    X(read_new)                                                                                                        \
    X(read_next_header2)                                                                                               \
    X(read_open1)                                                                                                      \
    X(read_set_callback_data)                                                                                          \
    X(read_set_read_callback)                                                                                          \
    X(read_support_format_tar)                                                                                         \
    X(set_error)                                                                                                       \
    X(write_close)                                                                                                     \
    X(write_data)                                                                                                      \
    X(write_free)                                                                                                      \
    X(write_header)                                                                                                    \
    X(write_new)                                                                                                       \
    X(write_open)                                                                                                      \
    X(write_open_fd)                                                                                                   \
    X(write_set_bytes_in_last_block)                                                                                   \
    X(write_set_format_gnutar)

/* kg_libarchive()->read_new is archive_read_new, and so on. */
struct kg_libarchive {
#define KG_LIBARCHIVE_MEMBER(name) __typeof__(&archive_##name) name;
    KG_LIBARCHIVE_LIST(KG_LIBARCHIVE_MEMBER)
#undef KG_LIBARCHIVE_MEMBER
    __typeof__(&archive_errno) error_number; /* errno is a macro */
};

/* NULL if the machine does not have it: kg_archive_missing says so. */
const struct kg_libarchive *kg_libarchive(void);

#endif
