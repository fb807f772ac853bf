#include "suites/support/rights.h"
#include <check.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

void kg_rights_read_all(bool may) {
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3];
    const uint32_t rights = (1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH);
    ck_assert_int_eq(syscall(SYS_capget, &head, caps), 0);
    caps[0].effective = (caps[0].effective & ~rights) | (may ? caps[0].permitted & rights : 0);
    ck_assert_int_eq(syscall(SYS_capset, &head, caps), 0);
}
