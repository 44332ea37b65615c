/*!
 * \file tvm/runtime/metadata_types.h
 * \brief Former name of metadata.h; generated code of earlier releases includes it.
 */
#ifndef TVM_RUNTIME_METADATA_TYPES_H_
#define TVM_RUNTIME_METADATA_TYPES_H_

#include <tvm/runtime/metadata.h>

#endif /* TVM_RUNTIME_METADATA_TYPES_H_ */
