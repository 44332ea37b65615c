/* What the factories of graph and of ahead-of-time executors have in common. */
#ifndef TVMRT_SRC_RUNTIME_EXECUTORS_FACTORY_H_
#define TVMRT_SRC_RUNTIME_EXECUTORS_FACTORY_H_

#include "../modules/module.h"
#include "../tensors/params.h"

/* Arguments from `first` on as pairs of a name and an NDArray. */
int tvmrt__factory_add_params(tvmrt_params* params, const tvmrt_args* in, int first);

/* Give `bare` the imports of `from`, and return it as `remove_params` does. Takes over `bare`, which is
 * NULL if it could not be made. */
int tvmrt__factory_return_bare(tvmrt_module* bare, const tvmrt_module* from, TVMValue* out,
                               int* out_code);

#endif
