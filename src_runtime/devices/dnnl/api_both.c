/* What reads the same for oneDNN 2 and oneDNN 3. */
#include "api.h"

/* By what they mean, not by their address. */
bool api_equal(const layout* a, const layout* b) {
  return dnnl_memory_desc_equal(api_md(a), api_md(b)) != 0;
}

/* With the padding of blocks. */
size_t api_bytes(const layout* l) { return dnnl_memory_desc_get_size(api_md(l)); }

dnnl_status_t api_memory(dnnl_memory_t* out, const layout* l, dnnl_engine_t engine, void* data) {
  return dnnl_memory_create(out, api_md(l), engine, data);
}

/* Both sides are of one engine, the CPU. */
dnnl_status_t api_reorder(const layout* from, const layout* to, dnnl_engine_t engine,
                          const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t* out) {
  return dnnl_reorder_primitive_desc_create(out, api_md(from), engine, api_md(to), engine, attr);
}

/* The operand's memory becomes an argument of the primitive, by the number of the operation. */
dnnl_status_t api_append_binary(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, const layout* other) {
  return dnnl_post_ops_append_binary(ops, alg, api_md(other));
}
