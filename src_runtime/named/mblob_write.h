/* Writing of a library's module tree. */
#ifndef TVMRT_SRC_RUNTIME_NAMED_MBLOB_WRITE_H_
#define TVMRT_SRC_RUNTIME_NAMED_MBLOB_WRITE_H_

#include "../modules/module.h"

/* The bytes for __tvm_dev_mblob: u64 length and the stream. */
int tvmrt__mblob_pack(tvmrt_module* root, tvmrt_buf* out);

#endif
