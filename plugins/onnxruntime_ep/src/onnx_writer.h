/* Write a graph of onnxruntime as an ONNX model. */
#ifndef TVMRT_ONNXRUNTIME_EP_ONNX_WRITER_H_
#define TVMRT_ONNXRUNTIME_EP_ONNX_WRITER_H_

#include "text.h"

/* Messages of protocol buffers, written in one pass: the size of a nested message takes five bytes,
 * which are filled in at its end. */
void proto_int(bytes* to, uint32_t field, int64_t value);
void proto_float(bytes* to, uint32_t field, float value);
void proto_bytes(bytes* to, uint32_t field, const void* data, size_t size);
void proto_text(bytes* to, uint32_t field, const char* text);
size_t proto_begin(bytes* to, uint32_t field);
void proto_end(bytes* to, size_t begin);

/* One value: a tensor with its content, as the field `field` of the message around it. */
ort_status* write_tensor(const ort_functions* ort, bytes* to, uint32_t field, const char* name,
                         const ort_value* value);

/* The name, and for tensors element type and shape. */
ort_status* write_value_info(const ort_functions* ort, bytes* to, uint32_t field,
                             const ort_value_info* info);

/* One attribute, which is not a graph. */
ort_status* write_attribute(const ort_functions* ort, bytes* to, const ort_attribute* attribute);

#endif /* TVMRT_ONNXRUNTIME_EP_ONNX_WRITER_H_ */
