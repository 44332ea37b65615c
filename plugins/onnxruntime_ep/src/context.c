#include <string.h>

#include "provider.h"
#include "sdk/system.h"

/* The content of an attribute, *bytes long; NULL if there is none of that name. */
static char* read_attribute(job* j, const ort_node* node, const char* name, int type,
                            size_t* bytes) {
  const ort_attribute* attribute = NULL;
  ort_status* missing;
  if (j->has_failed) return NULL;
  missing = j->ort->api.Node_GetAttributeByName(node, name, &attribute);
  if (missing != NULL) j->ort->api.ReleaseStatus(missing);
  return missing != NULL || attribute == NULL ? NULL : job_attribute(j, attribute, type, bytes);
}

static int64_t read_number(job* j, const ort_node* node, const char* name, int64_t absent) {
  size_t bytes = 0;
  const char* data = read_attribute(j, node, name, ORT_INT, &bytes);
  if (data != NULL && bytes == sizeof(absent)) memcpy(&absent, data, bytes);
  return absent;
}

bool context_is_ours(job* j, const ort_node* node) {
  const char *type = "", *source = NULL;
  size_t bytes;
  ORT(j, api.Node_GetOperatorType, node, &type);
  if (strcmp(type, "EPContext") == 0)
    source = read_attribute(j, node, "source", ORT_STRING, &bytes);
  return source != NULL && strcmp(source, EP_NAME) == 0;
}

/* The path of the model that is read or written; "" if it has none. */
static const char* model_path(job* j, const provider* p, const ort_graph* graph) {
  const char* path = p->options[OPTION_CONTEXT_PATH];
  if (path == NULL || path[0] == '\0') ORT(j, api.Graph_GetModelPath, graph, &path);
  return path == NULL ? "" : path;
}

/* The path of a file next to the model. */
static char* file_next_to(job* j, const char* model, const char* name) {
  const size_t folder = (size_t)(tvmrt__file_name(model) - model);
  return job_text(j, "%.*s%s", folder == 0 ? 2 : (int)folder, folder == 0 ? "./" : model, name);
}

kernel* context_load(job* j, const provider* p, const ort_graph* graph, const ort_node* node,
                     const ort_node* fused) {
  const bool is_embedded = read_number(j, node, "embed_mode", 1) != 0;
  const int64_t library_bytes = read_number(j, node, "max_size", -1);
  size_t size = 0;
  char *path, *content = read_attribute(j, node, "ep_cache_context", ORT_STRING, &size);
  if (content == NULL) {
    job_fail(j, ORT_INVALID_ARGUMENT,
             "an EPContext node has no ep_cache_context; compile the model again");
    return NULL;
  }
  if (is_embedded) {
    if (library_bytes >= 0 && (uint64_t)library_bytes < size) size = (size_t)library_bytes;
    path = job_file(j, "network.so");
    if (path != NULL) TVM(j, tvmrt__write_file(path, content, size));
  } else if (content[0] == '\0' || content[0] == '.' || strchr(content, '/') != NULL) {
    job_fail(j, ORT_INVALID_ARGUMENT,
             "the EPContext node names the library '%s'; only a file in the model's own folder is "
             "loaded",
             content);
    return NULL;
  } else {
    path = file_next_to(j, model_path(j, p, graph), content);
    if (path != NULL && !tvmrt__is_readable(path)) {
      job_fail(j, ORT_INVALID_ARGUMENT,
               "the library %s of an EPContext node cannot be read; move it to the folder of its "
               "model, and set ep.context_file_path if the model is given as bytes",
               path);
    }
  }
  return kernel_load(j, path, fused);
}

/* ---- writing ---- */

static const char** names_of(job* j, list infos) {
  const char** names = job_alloc(j, infos.count + 1, sizeof(*names));
  for (size_t i = 0; names != NULL && i < infos.count; ++i) {
    names[i] = "";
    if (infos.items[i] != NULL) ORT(j, api.GetValueInfoName, infos.items[i], &names[i]);
  }
  return names;
}

/* Write the library next to the model; its name is that of the model, without the suffix, and the
 * node. Names with "." at the front are not loaded. */
static char* write_library(job* j, const char* model, const char* node, const tvmrt_buf* library) {
  const char* base = model[0] == '\0' ? "model" : tvmrt__file_name(model);
  const char* suffix = strrchr(base, '.');
  const size_t length = suffix == NULL ? strlen(base) : (size_t)(suffix - base);
  char *name = job_text(j, "%.*s_%s.so", (int)length, base, node), *path;
  for (char* c = name; c != NULL && *c != '\0'; ++c) *c = *c == '/' ? '_' : *c;
  if (name != NULL && name[0] == '.') name[0] = '_';
  path = name == NULL ? NULL : file_next_to(j, model, name);
  if (path != NULL) TVM(j, tvmrt__write_file(path, library->data, library->size));
  return name;
}

/* Some versions of onnxruntime end a text at its first NUL. */
static void check_content(job* j, const ort_attribute* attribute, size_t size) {
  size_t kept = 0;
  ort_status* too_small = j->ort->api.ReadOpAttr(attribute, ORT_STRING, NULL, 0, &kept);
  if (too_small != NULL) j->ort->api.ReleaseStatus(too_small);
  if (kept >= size) return;
  job_fail(j, ORT_FAIL,
           "this onnxruntime cannot embed a library in a model; write it to a file with "
           "ep.context_embed_mode=0");
}

enum { NUM_ATTRIBUTES = 7 };

static void make_attributes(job* j, const char* node, const char* file, const tvmrt_buf* library,
                            ort_attribute** out) {
  const int64_t one = 1, mode = file == NULL ? 1 : 0;
  const char* content = file == NULL ? library->data : file;
  const size_t size = file == NULL ? library->size : strlen(file);
  const int64_t content_bytes = (int64_t)size;
  const struct {
    const char* name;
    const void* data;
    size_t count;
    int type;
  } rows[NUM_ATTRIBUTES] = {
      {"main_context", &one, 1, ORT_INT},
      {"embed_mode", &mode, 1, ORT_INT},
      {"max_size", &content_bytes, 1, ORT_INT},
      {"ep_cache_context", content, size, ORT_STRING},
      {"source", EP_NAME, strlen(EP_NAME), ORT_STRING},
      {"ep_sdk_version", TVMRT_SDK_VERSION, strlen(TVMRT_SDK_VERSION), ORT_STRING},
      {"partition_name", node, strlen(node), ORT_STRING},
  };
  if (size > INT32_MAX) {
    job_fail(j, ORT_FAIL,
             "the library has more than 2 GiB; write it to a file with ep.context_embed_mode=0");
  }
  for (size_t i = 0; i < NUM_ATTRIBUTES; ++i) {
    if (ORT(j, api.CreateOpAttr, rows[i].name, rows[i].data, (int)rows[i].count, rows[i].type,
            &out[i]) &&
        rows[i].data == content) {
      check_content(j, out[i], size);
    }
  }
}

ort_node* context_node(job* j, const provider* p, const ort_graph* graph, const ort_node* fused,
                       const char* library_path) {
  const char *embed = p->options[OPTION_CONTEXT_IS_EMBEDDED], *name = "", *file = NULL;
  const list inputs = LIST(j, Node, Inputs, fused), outputs = LIST(j, Node, Outputs, fused);
  const char **input_names = names_of(j, inputs), **output_names = names_of(j, outputs);
  tvmrt_buf library = {NULL, 0, 0};
  ort_attribute* attributes[NUM_ATTRIBUTES] = {NULL};
  ort_node* made = NULL;
  ORT(j, api.Node_GetName, fused, &name);
  if (TVM(j, tvmrt__read_file(library_path, &library))) {
    if (embed == NULL || strcmp(embed, "1") != 0) {
      file = write_library(j, model_path(j, p, graph), name, &library);
    }
    if (!j->has_failed) make_attributes(j, name, file, &library, attributes);
    ORT(j, editor.CreateNode, "EPContext", "com.microsoft", name, input_names, inputs.count,
        output_names, outputs.count, attributes, NUM_ATTRIBUTES, &made);
  }
  for (size_t i = 0; i < NUM_ATTRIBUTES; ++i) {
    if (attributes[i] != NULL) j->ort->api.ReleaseOpAttr(attributes[i]); /* CreateNode sets NULL */
  }
  tvmrt__buf_free(&library);
  return made;
}
