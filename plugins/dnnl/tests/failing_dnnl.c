/* Functions of oneDNN that fail on demand. */
#include <oneapi/dnnl/dnnl.h>

#include "failing_calls.h"

STATUS(dnnl_status_t, dnnl_engine_create, (dnnl_engine_t * a, dnnl_engine_kind_t b, size_t c),
       (a, b, c))
STATUS(dnnl_status_t, dnnl_stream_create, (dnnl_stream_t * a, dnnl_engine_t b, unsigned c),
       (a, b, c))
STATUS(dnnl_status_t, dnnl_stream_wait, (dnnl_stream_t a), (a))
STATUS(dnnl_status_t, dnnl_primitive_create, (dnnl_primitive_t * a, const_dnnl_primitive_desc_t b),
       (a, b))
STATUS(dnnl_status_t, dnnl_primitive_execute,
       (const_dnnl_primitive_t a, dnnl_stream_t b, int c, const dnnl_exec_arg_t* d), (a, b, c, d))
STATUS(dnnl_status_t, dnnl_primitive_attr_create, (dnnl_primitive_attr_t * a), (a))
STATUS(dnnl_status_t, dnnl_primitive_attr_set_post_ops,
       (dnnl_primitive_attr_t a, const_dnnl_post_ops_t b), (a, b))
STATUS(dnnl_status_t, dnnl_primitive_attr_set_scratchpad_mode,
       (dnnl_primitive_attr_t a, dnnl_scratchpad_mode_t b), (a, b))
STATUS(dnnl_status_t, dnnl_post_ops_create, (dnnl_post_ops_t * a), (a))
STATUS(dnnl_status_t, dnnl_memory_set_data_handle, (dnnl_memory_t a, void* b), (a, b))
#if DNNL_VERSION_MAJOR == 2
STATUS(dnnl_status_t, dnnl_memory_create,
       (dnnl_memory_t * a, const dnnl_memory_desc_t* b, dnnl_engine_t c, void* d), (a, b, c, d))
STATUS(dnnl_status_t, dnnl_primitive_desc_create,
       (dnnl_primitive_desc_t * a, const_dnnl_op_desc_t b, const_dnnl_primitive_attr_t c,
        dnnl_engine_t d, const_dnnl_primitive_desc_t e),
       (a, b, c, d, e))
STATUS(dnnl_status_t, dnnl_memory_desc_init_by_strides,
       (dnnl_memory_desc_t * a, int b, const dnnl_dims_t c, dnnl_data_type_t d,
        const dnnl_dims_t e),
       (a, b, c, d, e))
STATUS(dnnl_status_t, dnnl_reorder_primitive_desc_create,
       (dnnl_primitive_desc_t * a, const dnnl_memory_desc_t* b, dnnl_engine_t c,
        const dnnl_memory_desc_t* d, dnnl_engine_t e, const_dnnl_primitive_attr_t f),
       (a, b, c, d, e, f))
#endif
