#include <string.h>

#include "provider.h"

/* The text of an attribute, *bytes long; NULL if there is none of that name. */
static char* read_text(job* j, const ort_node* node, const char* name, size_t* bytes) {
  const ort_attribute* attribute = NULL;
  ort_status* missing;
  if (j->has_failed) return NULL;
  missing = j->ort->api.Node_GetAttributeByName(node, name, &attribute);
  if (missing != NULL) j->ort->api.ReleaseStatus(missing);
  return missing != NULL || attribute == NULL ? NULL
                                              : job_attribute(j, attribute, ORT_STRING, bytes);
}

bool context_is_ours(job* j, const ort_node* node) {
  const char *type = "", *source = NULL;
  size_t bytes;
  ORT(j, api.Node_GetOperatorType, node, &type);
  if (strcmp(type, "EPContext") == 0) source = read_text(j, node, "source", &bytes);
  return source != NULL && strcmp(source, EP_NAME) == 0;
}

kernel* context_load(job* j, const ort_node* node, const ort_node* fused) {
  size_t size = 0;
  const char* library = read_text(j, node, "ep_cache_context", &size);
  char* path = job_file(j, "network.so");
  if (library == NULL) {
    job_fail(j, ORT_INVALID_ARGUMENT,
             "an EPContext node has no ep_cache_context; compile the model again");
  }
  TVM(j, tvmrt__write_file(path, library, size));
  return kernel_load(j, path, fused);
}

/* ORT_STRING attributes; that of the library is "embedded", and its node a "main" one by default. */
static void make_attributes(job* j, const tvmrt_buf* library, ort_attribute* out[3]) {
  const struct {
    const char *name, *text;
    size_t size;
  } rows[3] = {
      {"source", EP_NAME, strlen(EP_NAME)},
      {"ep_sdk_version", TVMRT_SDK_VERSION, strlen(TVMRT_SDK_VERSION)},
      {"ep_cache_context", library->data, library->size},
  };
  if (library->size > INT32_MAX) {
    job_fail(j, ORT_FAIL, "the library of a part has more than 2 GiB, which no ONNX file has");
  }
  for (size_t i = 0; i < 3; ++i) {
    ORT(j, api.CreateOpAttr, rows[i].name, rows[i].text, (int)rows[i].size, ORT_STRING, &out[i]);
  }
}

ort_node* context_node(job* j, const ort_node* fused, const char* path) {
  const list inputs = LIST(j, Node, Inputs, fused), outputs = LIST(j, Node, Outputs, fused);
  const char **input_names = job_names(j, inputs), **output_names = job_names(j, outputs);
  const char* name = "";
  tvmrt_buf library = {NULL, 0, 0};
  ort_attribute* attributes[3] = {NULL};
  ort_node* made = NULL;
  ORT(j, api.Node_GetName, fused, &name);
  if (TVM(j, tvmrt__read_file(path, &library))) make_attributes(j, &library, attributes);
  ORT(j, editor.CreateNode, "EPContext", "com.microsoft", name, input_names, inputs.count,
      output_names, outputs.count, attributes, 3, &made);
  for (size_t i = 0; i < 3; ++i) {
    if (attributes[i] != NULL) j->ort->api.ReleaseOpAttr(attributes[i]); /* CreateNode sets NULL */
  }
  tvmrt__buf_free(&library);
  return made;
}
