#include "context.h"

#include <stdlib.h>
#include <tvm/runtime/c_runtime_api.h>

#include "model.h"

enum { NUM_ATTRIBUTES = 7 };

/* The string attribute of this name; *text is owned, NULL if there is none. *size is that of the
 * content, in some versions of onnxruntime with a NUL that they add. */
static ort_status* read_text(const ort_functions* ort, const ort_node* node, const char* name,
                             char** text, size_t* size) {
  const ort_attribute* attribute = NULL;
  ort_status* status = ort->api.Node_GetAttributeByName(node, name, &attribute);
  *text = NULL;
  *size = 0;
  if (status != NULL) { /* there is none of the name */
    ort->api.ReleaseStatus(status);
    return NULL;
  }
  if (attribute == NULL) return NULL;
  status = ort->api.ReadOpAttr(attribute, ORT_ATTRIBUTE_STRING, NULL, 0, size);
  if (status != NULL) ort->api.ReleaseStatus(status);
  if (*size == 0) return NULL;
  *text = malloc(*size + 1);
  if (*text == NULL) return fail_memory(ort);
  status = ort->api.ReadOpAttr(attribute, ORT_ATTRIBUTE_STRING, *text, *size, size);
  if (status != NULL) return status;
  (*text)[*size] = '\0';
  return NULL;
}

ort_status* context_is_ours(const ort_functions* ort, const ort_node* node, bool* is) {
  const char* type = NULL;
  char* source = NULL;
  size_t size = 0;
  ort_status* status;
  *is = false;
  ORT_TRY(ort->api.Node_GetOperatorType(node, &type));
  if (strcmp(type, "EPContext") != 0) return NULL;
  status = read_text(ort, node, "source", &source, &size);
  *is = source != NULL && strcmp(source, EP_NAME) == 0;
  free(source);
  return status;
}

static ort_status* count_ports(const ort_functions* ort, const ort_node* node, size_t* inputs,
                               size_t* outputs) {
  ORT_TRY(ort->api.Node_GetNumInputs(node, inputs));
  return ort->api.Node_GetNumOutputs(node, outputs);
}

/* The folder of the model, with a final "/", or "" if the model is in the working directory. */
static ort_status* folder_of(const ort_functions* ort, const context_options* options,
                             const ort_graph* graph, char** out) {
  const char *path = options->path, *slash;
  if (path == NULL || path[0] == '\0') ORT_TRY(ort->api.Graph_GetModelPath(graph, &path));
  slash = path == NULL ? NULL : strrchr(path, '/');
  *out = slash == NULL ? strdup("") : strndup(path, (size_t)(slash - path) + 1);
  return *out == NULL ? fail_memory(ort) : NULL;
}

static bool is_plain_name(const char* name) {
  return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

static ort_status* load_file(const ort_functions* ort, const context_options* options,
                             const ort_graph* graph, const char* name, size_t inputs,
                             size_t outputs, kernel** out) {
  char *folder = NULL, *path;
  ort_status* status;
  if (!is_plain_name(name)) {
    return fail(ort, ORT_INVALID_ARGUMENT,
                "tvmrt: the EPContext node names the library '%s'; only a file in the model's own "
                "folder is loaded",
                name);
  }
  ORT_TRY(folder_of(ort, options, graph, &folder));
  path = text_new("%s%s%s", folder[0] == '\0' ? "./" : "", folder, name);
  status = path == NULL ? fail_memory(ort) : kernel_load(ort, path, inputs, outputs, out);
  free(path);
  free(folder);
  return status;
}

/* The integer attribute of this name; *number is unchanged if there is none. */
static ort_status* read_number(const ort_functions* ort, const ort_node* node, const char* name,
                               int64_t* number) {
  const ort_attribute* attribute = NULL;
  size_t read = 0;
  ort_status* status = ort->api.Node_GetAttributeByName(node, name, &attribute);
  if (status != NULL) {
    ort->api.ReleaseStatus(status);
    return NULL;
  }
  if (attribute == NULL) return NULL;
  return ort->api.ReadOpAttr(attribute, ORT_ATTRIBUTE_INT, number, sizeof(*number), &read);
}

ort_status* context_load(const ort_functions* ort, const context_options* options,
                         const ort_graph* graph, const ort_node* node, kernel** out) {
  int64_t embedded = 1, library_bytes = -1;
  size_t size = 0, inputs = 0, outputs = 0;
  char* content = NULL;
  ort_status* status;
  ORT_TRY(count_ports(ort, node, &inputs, &outputs));
  ORT_TRY(read_number(ort, node, "embed_mode", &embedded));
  ORT_TRY(read_number(ort, node, "max_size", &library_bytes));
  status = read_text(ort, node, "ep_cache_context", &content, &size);
  if (status == NULL && content == NULL) {
    status = fail(ort, ORT_INVALID_ARGUMENT,
                  "tvmrt: an EPContext node has no ep_cache_context; compile the model again");
  } else if (status == NULL && embedded != 0) {
    if (library_bytes >= 0 && (uint64_t)library_bytes < size) size = (size_t)library_bytes;
    status = kernel_from_bytes(ort, content, size, inputs, outputs, out);
  } else if (status == NULL) {
    status = load_file(ort, options, graph, content, inputs, outputs, out);
  }
  free(content);
  return status;
}

/* ---- writing ---- */

static ort_status* names_of(const ort_functions* ort, infos* list, const char*** names) {
  ort_status* status = NULL;
  *names = calloc(list->count + 1, sizeof(**names));
  if (*names == NULL) status = fail_memory(ort);
  for (size_t i = 0; status == NULL && *names != NULL && i < list->count; ++i) {
    (*names)[i] = "";
    if (list->items[i] != NULL) status = ort->api.GetValueInfoName(list->items[i], &(*names)[i]);
  }
  return status;
}

/* Write the library next to the model; its name is that of the model and the node. */
static ort_status* write_library(const ort_functions* ort, const context_options* options,
                                 const ort_graph* graph, const char* node, const bytes* library,
                                 char** name) {
  const char *model = options->path, *base;
  char *folder = NULL, *path = NULL;
  ort_status* status;
  if (model == NULL || model[0] == '\0') ORT_TRY(ort->api.Graph_GetModelPath(graph, &model));
  base = model == NULL ? NULL : strrchr(model, '/');
  base = base != NULL ? base + 1 : model != NULL && model[0] != '\0' ? model : "model";
  *name = text_new("%.*s_%s.so", (int)strcspn(base, "."), base, node);
  status = *name == NULL ? fail_memory(ort) : folder_of(ort, options, graph, &folder);
  if (status == NULL && *name != NULL) {
    for (char* c = *name; *c != '\0'; ++c) *c = *c == '/' ? '_' : *c;
    path = text_new("%s%s", folder, *name);
    status = path == NULL ? fail_memory(ort) : write_file(ort, path, library->data, library->size);
  }
  free(path);
  free(folder);
  return status;
}

/* Some versions end a text at its first NUL. */
static ort_status* check_content(const ort_functions* ort, const ort_attribute* attribute,
                                 size_t size) {
  size_t kept = 0;
  ort_status* status = ort->api.ReadOpAttr(attribute, ORT_ATTRIBUTE_STRING, NULL, 0, &kept);
  if (status != NULL) ort->api.ReleaseStatus(status);
  if (kept >= size) return NULL;
  return fail(ort, ORT_FAIL,
              "tvmrt: this onnxruntime cannot embed a library in a model; write it to a file with "
              "ep.context_embed_mode=0");
}

static ort_status* make_attributes(const ort_functions* ort, bool embedded, const char* node,
                                   const void* content, size_t size, ort_attribute** out) {
  const int64_t one = 1, mode = embedded ? 1 : 0, content_bytes = (int64_t)size;
  const char* version = TVMRT_VERSION_TEXT;
  const struct {
    const char* name;
    const void* data;
    size_t bytes;
    int type;
  } rows[NUM_ATTRIBUTES] = {
      {"main_context", &one, 1, ORT_ATTRIBUTE_INT},
      {"embed_mode", &mode, 1, ORT_ATTRIBUTE_INT},
      {"max_size", &content_bytes, 1, ORT_ATTRIBUTE_INT},
      {"ep_cache_context", content, size, ORT_ATTRIBUTE_STRING},
      {"source", EP_NAME, strlen(EP_NAME), ORT_ATTRIBUTE_STRING},
      {"ep_sdk_version", version, strlen(version), ORT_ATTRIBUTE_STRING},
      {"partition_name", node, strlen(node), ORT_ATTRIBUTE_STRING},
  };
  if (size > INT32_MAX) {
    return fail(ort, ORT_FAIL,
                "tvmrt: the library has more than 2 GiB; write it to a file with "
                "ep.context_embed_mode=0");
  }
  for (size_t i = 0; i < NUM_ATTRIBUTES; ++i) {
    ORT_TRY(ort->api.CreateOpAttr(rows[i].name, rows[i].data, (int)rows[i].bytes, rows[i].type,
                                  &out[i]));
    if (rows[i].data == content) ORT_TRY(check_content(ort, out[i], size));
  }
  return NULL;
}

static ort_status* make_node(const ort_functions* ort, const char* name, const char** inputs,
                             size_t num_inputs, const char** outputs, size_t num_outputs,
                             ort_attribute** attributes, ort_node** out) {
  return ort->editor.CreateNode("EPContext", "com.microsoft", name, inputs, num_inputs, outputs,
                                num_outputs, attributes, NUM_ATTRIBUTES, out);
}

ort_status* context_node(const ort_functions* ort, const context_options* options,
                         const ort_graph* graph, const ort_node* fused, const bytes* library,
                         ort_node** out) {
  infos inputs = {NULL, 0}, outputs = {NULL, 0};
  const char *name = NULL, **in_names = NULL, **out_names = NULL;
  char* file = NULL;
  ort_attribute* attributes[NUM_ATTRIBUTES] = {NULL};
  ort_status* status = ort->api.Node_GetName(fused, &name);
  if (status == NULL) status = node_inputs(ort, fused, &inputs);
  if (status == NULL) status = node_outputs(ort, fused, &outputs);
  if (status == NULL) status = names_of(ort, &inputs, &in_names);
  if (status == NULL) status = names_of(ort, &outputs, &out_names);
  if (status == NULL && !options->is_embedded) {
    status = write_library(ort, options, graph, name, library, &file);
  }
  if (status == NULL) {
    status = make_attributes(ort, options->is_embedded, name, file != NULL ? file : library->data,
                             file != NULL ? strlen(file) : library->size, attributes);
  }
  if (status == NULL) {
    status =
        make_node(ort, name, in_names, inputs.count, out_names, outputs.count, attributes, out);
  }
  for (size_t i = 0; i < NUM_ATTRIBUTES; ++i) {
    if (attributes[i] != NULL) ort->api.ReleaseOpAttr(attributes[i]); /* CreateNode sets NULL */
  }
  free(file);
  free(out_names);
  free(in_names);
  infos_free(&outputs);
  infos_free(&inputs);
  return status;
}
