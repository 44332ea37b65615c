/* The nodes that onnxruntime gives the plug-in, as an ONNX model. */
#ifndef TVMRT_ONNXRUNTIME_EP_MODEL_H_
#define TVMRT_ONNXRUNTIME_EP_MODEL_H_

#include "job.h"

/* A message of protocol buffers, written in one pass: the size of a nested message takes five bytes,
 * which are filled in at its end. */
typedef struct writer {
  job* j;
  tvmrt_buf* to;
} writer;
void write_int(writer w, uint32_t field, int64_t value);
void write_bytes(writer w, uint32_t field, const void* data, size_t size);
void write_text(writer w, uint32_t field, const char* text); /* NULL: nothing */
size_t write_begin(writer w, uint32_t field);
void write_end(writer w, size_t begin);

/* A constant, with its content. */
void write_tensor(writer w, uint32_t field, const char* name, const ort_value* value);
/* A name, and for tensors element type and shape. */
void write_value_info(writer w, uint32_t field, const ort_value_info* info);
/* An attribute, except a graph. */
void write_attribute(writer w, uint32_t field, const ort_attribute* attribute);

/* Append a serialized ModelProto of the graph to `to`. Its inputs and outputs are those of
 * `boundary`, in that order, without constants; without `boundary`, those of the graph. */
void write_model(job* j, const ort_graph* graph, const ort_node* boundary, tvmrt_buf* to);

#endif /* TVMRT_ONNXRUNTIME_EP_MODEL_H_ */
