#include <string.h>

#include "provider.h"
#include "sha256.h"

/* The value of an attribute, *bytes long; NULL if there is none of that name and type. */
static const char* read_attribute(job* j, const ort_node* node, const char* name, int type,
                                  size_t* bytes) {
  const ort_attribute* attribute = NULL;
  ort_status* missing;
  int found = 0;
  if (j->has_failed) return NULL;
  missing = j->ort->api.Node_GetAttributeByName(node, name, &attribute);
  if (missing != NULL) j->ort->api.ReleaseStatus(missing);
  if (missing != NULL || attribute == NULL) return NULL;
  if (!ORT(j, api.OpAttr_GetType, attribute, &found) || found != type) return NULL;
  return job_attribute(j, attribute, type, bytes);
}

bool context_is_ours(job* j, const ort_node* node) {
  const char *type = "", *source = NULL;
  size_t bytes;
  ORT(j, api.Node_GetOperatorType, node, &type);
  if (strcmp(type, "EPContext") == 0) {
    source = read_attribute(j, node, "source", ORT_STRING, &bytes);
  }
  return source != NULL && strcmp(source, EP_NAME) == 0;
}

/* Paths in a model are not read: the library is part of the node. */
static void check_kind(job* j, const ort_node* node) {
  static const char* const names[] = {"embed_mode", "main_context"};
  for (size_t i = 0; i < 2; ++i) {
    size_t bytes = 0;
    int64_t value = 1;
    const char* data = read_attribute(j, node, names[i], ORT_INT, &bytes);
    if (data != NULL && bytes == sizeof(value)) memcpy(&value, data, sizeof(value));
    if (value == 1) continue;
    job_fail(
        j, ORT_INVALID_ARGUMENT,
        "an EPContext node has %s %lld, and 1 is expected: tvmrt keeps each library in its own "
        "node and reads no other file; compile the model again",
        names[i], (long long)value);
  }
}

kernel* context_load(job* j, const provider* p, const ort_node* node, const ort_node* fused) {
  size_t size = 0, bytes = 0;
  const char* version = read_attribute(j, node, "ep_sdk_version", ORT_STRING, &bytes);
  const char* stored = read_attribute(j, node, "sha256", ORT_STRING, &bytes);
  const char* library = read_attribute(j, node, "ep_cache_context", ORT_STRING, &size);
  char* path;
  check_kind(j, node);
  if (LIST(j, Node, Inputs, node).count != LIST(j, Node, Inputs, fused).count) {
    job_fail(
        j, ORT_INVALID_ARGUMENT,
        "an EPContext node has an input that is given twice or is a constant, which its library "
        "cannot have; compile the model again");
  }
  (void)read_attribute(j, node, "source", ORT_STRING, &bytes);
  if (size > 0 && bytes > strlen(EP_NAME)) --size; /* the NUL that this onnxruntime counts */
  if (size == 0) {
    job_fail(
        j, ORT_INVALID_ARGUMENT,
        "an EPContext node has no library in its attribute ep_cache_context; compile the model "
        "again");
  }
  if (!trust_check_library(j, p->options[OPTION_ALLOW_COMPILED], stored, library, size))
    return NULL;
  if (version != NULL && strcmp(version, TVMRT_SDK_VERSION) != 0) {
    j->note =
        job_text(j, "; tvmrt %.40s compiled it, and this is tvmrt %s", version, TVMRT_SDK_VERSION);
  }
  path = job_file(j, "network.so");
  TVM(j, tvmrt__write_file(path, library, size));
  return kernel_load(j, path, fused, p->max_idle);
}

enum { NUM_ATTRIBUTES = 4 };

/* ORT_STRING attributes; that of the library is "embedded", and its node a "main" one by default. */
static void make_attributes(job* j, const tvmrt_buf* library, ort_attribute* out[NUM_ATTRIBUTES]) {
  char digest[SHA256_TEXT_BYTES];
  const struct {
    const char *name, *text;
    size_t size;
  } rows[NUM_ATTRIBUTES] = {
      {"source", EP_NAME, strlen(EP_NAME)},
      {"ep_sdk_version", TVMRT_SDK_VERSION, strlen(TVMRT_SDK_VERSION)},
      {"sha256", digest, sizeof(digest) - 1},
      {"ep_cache_context", library->data, library->size},
  };
  if (library->size > INT32_MAX) {
    job_fail(j, ORT_FAIL, "the library of a part has more than 2 GiB, which no ONNX file has");
  }
  sha256_text(library->data, library->size, digest);
  for (size_t i = 0; i < NUM_ATTRIBUTES; ++i) {
    ORT(j, api.CreateOpAttr, rows[i].name, rows[i].text, (int)rows[i].size, ORT_STRING, &out[i]);
  }
}

ort_node* context_node(job* j, const ort_node* fused, const char* path) {
  const list inputs = LIST(j, Node, Inputs, fused), outputs = LIST(j, Node, Outputs, fused);
  const char **input_names = job_names(j, inputs), **output_names = job_names(j, outputs);
  const char* name = "";
  tvmrt_buf library = {NULL, 0, 0};
  ort_attribute* attributes[NUM_ATTRIBUTES] = {NULL};
  ort_node* made = NULL;
  ORT(j, api.Node_GetName, fused, &name);
  if (TVM(j, tvmrt__read_file(path, &library))) make_attributes(j, &library, attributes);
  ORT(j, editor.CreateNode, "EPContext", "com.microsoft", name, input_names, inputs.count,
      output_names, outputs.count, attributes, NUM_ATTRIBUTES, &made);
  for (size_t i = 0; i < NUM_ATTRIBUTES; ++i) {
    if (attributes[i] != NULL) j->ort->api.ReleaseOpAttr(attributes[i]); /* CreateNode sets NULL */
  }
  tvmrt__buf_free(&library);
  return made;
}
