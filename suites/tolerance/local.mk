libkigosuite_a_SOURCES += \
	suites/tolerance/mxfp4_noise.c suites/tolerance/mxfp4_noise.h \
	suites/tolerance/step_models.c suites/tolerance/step_models.h
check_PROGRAMS += \
	suites/tolerance/test_chunks \
	suites/tolerance/test_fixtures \
	suites/tolerance/test_attention_edges \
	suites/tolerance/test_formats \
	suites/tolerance/test_gemm \
	suites/tolerance/test_kv \
	suites/tolerance/test_layers \
	suites/tolerance/test_long \
	suites/tolerance/test_ops
suites_tolerance_test_chunks_SOURCES = suites/tolerance/test_chunks.c
suites_tolerance_test_fixtures_SOURCES = suites/tolerance/test_fixtures.c
suites_tolerance_test_attention_edges_SOURCES = suites/tolerance/test_attention_edges.c
suites_tolerance_test_gemm_SOURCES = suites/tolerance/test_gemm.c
suites_tolerance_test_kv_SOURCES = suites/tolerance/test_kv.c
suites_tolerance_test_formats_SOURCES = suites/tolerance/test_formats.c
suites_tolerance_test_layers_SOURCES = suites/tolerance/test_layers.c
suites_tolerance_test_long_SOURCES = suites/tolerance/test_long.c
check_PROGRAMS += suites/tolerance/test_sample
suites_tolerance_test_sample_SOURCES = suites/tolerance/test_sample.c
suites_tolerance_test_ops_SOURCES = suites/tolerance/test_ops.c
check_PROGRAMS += suites/tolerance/test_torch
suites_tolerance_test_torch_SOURCES = suites/tolerance/test_torch.c
EXTRA_DIST += suites/tolerance/peers/torch_ops.py
check_PROGRAMS += suites/tolerance/test_linear_formats
suites_tolerance_test_linear_formats_SOURCES = suites/tolerance/test_linear_formats.c
check_PROGRAMS += suites/tolerance/test_steps
suites_tolerance_test_steps_SOURCES = suites/tolerance/test_steps.c
check_PROGRAMS += suites/tolerance/test_attention_weights
suites_tolerance_test_attention_weights_SOURCES = suites/tolerance/test_attention_weights.c
check_PROGRAMS += suites/tolerance/test_sdpa suites/tolerance/test_sdpa_8bit
suites_tolerance_test_sdpa_SOURCES = \
	suites/tolerance/test_sdpa.c \
	suites/tolerance/sdpa_cases.c suites/tolerance/sdpa_cases.h
suites_tolerance_test_sdpa_8bit_SOURCES = \
	suites/tolerance/test_sdpa_8bit.c \
	suites/tolerance/sdpa_cases.c suites/tolerance/sdpa_cases.h
check_PROGRAMS += suites/tolerance/test_sdpa_quantize
suites_tolerance_test_sdpa_quantize_SOURCES = suites/tolerance/test_sdpa_quantize.c
check_PROGRAMS += suites/tolerance/test_mxfp4_tiles
suites_tolerance_test_mxfp4_tiles_SOURCES = suites/tolerance/test_mxfp4_tiles.c
check_PROGRAMS += suites/tolerance/test_mxfp4_ops
suites_tolerance_test_mxfp4_ops_SOURCES = suites/tolerance/test_mxfp4_ops.c
check_PROGRAMS += suites/tolerance/test_parts
suites_tolerance_test_parts_SOURCES = suites/tolerance/test_parts.c
check_PROGRAMS += suites/tolerance/test_mxfp4_models
suites_tolerance_test_mxfp4_models_SOURCES = suites/tolerance/test_mxfp4_models.c
check_PROGRAMS += suites/tolerance/test_mxfp4_memory
suites_tolerance_test_mxfp4_memory_SOURCES = suites/tolerance/test_mxfp4_memory.c
check_PROGRAMS += suites/tolerance/test_qkv_forms
suites_tolerance_test_qkv_forms_SOURCES = suites/tolerance/test_qkv_forms.c
check_PROGRAMS += suites/tolerance/test_decode_attention
suites_tolerance_test_decode_attention_SOURCES = suites/tolerance/test_decode_attention.c
check_PROGRAMS += suites/tolerance/test_row_fusions
suites_tolerance_test_row_fusions_SOURCES = suites/tolerance/test_row_fusions.c \
	suites/tolerance/lowered_mistakes.c suites/tolerance/lowered_mistakes.h
check_PROGRAMS += suites/tolerance/test_row_experts
suites_tolerance_test_row_experts_SOURCES = suites/tolerance/test_row_experts.c \
	suites/tolerance/lowered_mistakes.c suites/tolerance/lowered_mistakes.h
check_PROGRAMS += suites/tolerance/test_lowered suites/tolerance/test_lowered_blocks
lowered_sources = suites/tolerance/lowered_mistakes.c suites/tolerance/lowered_mistakes.h \
	suites/tolerance/lowered_scenes.c suites/tolerance/lowered_scenes.h \
	suites/tolerance/lowered_steps.c suites/tolerance/lowered_steps.h
suites_tolerance_test_lowered_SOURCES = suites/tolerance/test_lowered.c $(lowered_sources)
suites_tolerance_test_lowered_blocks_SOURCES = suites/tolerance/test_lowered_blocks.c $(lowered_sources)
check_PROGRAMS += suites/tolerance/test_epochs suites/tolerance/test_mixed_cache
suites_tolerance_test_epochs_SOURCES = suites/tolerance/test_epochs.c
suites_tolerance_test_mixed_cache_SOURCES = suites/tolerance/test_mixed_cache.c
check_PROGRAMS += suites/tolerance/test_device_weights
suites_tolerance_test_device_weights_SOURCES = suites/tolerance/test_device_weights.c
check_PROGRAMS += suites/tolerance/test_unasked_rows
suites_tolerance_test_unasked_rows_SOURCES = suites/tolerance/test_unasked_rows.c
check_PROGRAMS += suites/tolerance/test_fused
suites_tolerance_test_fused_SOURCES = suites/tolerance/test_fused.c
check_PROGRAMS += suites/tolerance/test_fused_ops
suites_tolerance_test_fused_ops_SOURCES = suites/tolerance/test_fused_ops.c
check_PROGRAMS += suites/tolerance/test_routes
suites_tolerance_test_routes_SOURCES = suites/tolerance/test_routes.c
