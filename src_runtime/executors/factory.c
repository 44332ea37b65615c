/* The common part of the factories.
 *
 * Both kinds of factories have imports and params; they differ in what they make, which stays with
 * them. */
#include "factory.h"

/* Tensors are retained, names copied. What was added before a failure goes with the factory. They
 * stand in pairs from argument `first` on; a name without a tensor at the end is passed over. */
int tvmrt__factory_add_params(tvmrt_params* params, const tvmrt_args* in, int first) {
  int i;
  for (i = first; i + 1 < in->count; i += 2) {
    const char* name;
    tvmrt_tensor* t;
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_str(in, i, &name));
    TVMRT_RETURN_IF_ERROR(tvmrt__arg_object(in, i + 1, TVMRT_TYPE_NDARRAY, &t));
    TVMRT_RETURN_IF_ERROR(tvmrt__params_add(params, name, t));
  }
  return 0;
}

/* Takes `bare` over, which is NULL where it could not be made: the error text is set then. */
int tvmrt__factory_return_bare(tvmrt_module* bare, const tvmrt_module* from, TVMValue* out,
                               int* out_code) {
  size_t i;
  for (i = 0; bare != NULL && i < from->num_imports; ++i) {
    if (tvmrt__module_import(bare, from->imports[i]) == 0) continue;
    /* What was imported before goes with it. */
    tvmrt__module_release(bare);
    return -1;
  }
  return tvmrt__ret_object(out, out_code, (tvmrt_object*)bare);
}
