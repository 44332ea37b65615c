#include "provider.h"

#include <stdlib.h>

#include "model.h"

struct provider {
  ort_own table; /* first */
  const ort_functions* ort;
  compiler compiler;
  context_options context;
};

/* ---- options ---- */

/* The text of a session option; *out is owned, NULL if it is not set. */
static ort_status* read_option(const ort_functions* ort, const ort_options* options,
                               const char* key, char** out) {
  int has = 0;
  size_t size = 0;
  *out = NULL;
  ORT_TRY(ort->api.HasSessionConfigEntry(options, key, &has));
  if (!has) return NULL;
  ORT_TRY(ort->api.GetSessionConfigEntry(options, key, NULL, &size));
  *out = calloc(size + 1, 1);
  if (*out == NULL) return fail_memory(ort);
  return ort->api.GetSessionConfigEntry(options, key, *out, &size);
}

static ort_status* read_flag(const ort_functions* ort, const ort_options* options, const char* key,
                             bool* out) {
  char* text = NULL;
  ort_status* status = read_option(ort, options, key, &text);
  *out = text != NULL && strcmp(text, "1") == 0;
  free(text);
  return status;
}

/* An option of tvmrt with another name would be ignored silently. */
static ort_status* check_names(const ort_functions* ort, const ort_options* options) {
  static const char prefix[] = "ep." EP_NAME ".";
  static const char* const known[] = {"dims", "min_nodes", "target", "command"};
  const char *const *keys = NULL, *const *values = NULL;
  void* pairs = NULL;
  size_t count = 0;
  ort_status* status = NULL;
  ORT_TRY(ort->api.GetSessionOptionsConfigEntries(options, &pairs));
  if (pairs == NULL) return NULL;
  ort->api.GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; status == NULL && i < count; ++i) {
    const char* name = keys[i] + sizeof(prefix) - 1;
    size_t k = 0;
    if (strncmp(keys[i], prefix, sizeof(prefix) - 1) != 0) continue;
    while (k < sizeof(known) / sizeof(*known) && strcmp(name, known[k]) != 0) ++k;
    if (k == sizeof(known) / sizeof(*known)) {
      status = fail(ort, ORT_INVALID_ARGUMENT,
                    "tvmrt has no provider option %s; choose from dims, min_nodes, target, command",
                    name);
    }
  }
  ort->api.ReleaseKeyValuePairs(pairs);
  return status;
}

static ort_status* read_options(const ort_functions* ort, const ort_options* options,
                                provider* to) {
  ORT_TRY(check_names(ort, options));
  ORT_TRY(read_option(ort, options, "ep." EP_NAME ".command", &to->compiler.command));
  ORT_TRY(read_option(ort, options, "ep." EP_NAME ".dims", &to->compiler.dims));
  ORT_TRY(read_option(ort, options, "ep." EP_NAME ".min_nodes", &to->compiler.min_nodes));
  ORT_TRY(read_option(ort, options, "ep." EP_NAME ".target", &to->compiler.target));
  ORT_TRY(read_option(ort, options, "ep.context_file_path", &to->context.path));
  ORT_TRY(read_flag(ort, options, "ep.context_enable", &to->context.is_written));
  ORT_TRY(read_flag(ort, options, "ep.context_embed_mode", &to->context.is_embedded));
  if (to->compiler.command != NULL && to->compiler.command[strspn(to->compiler.command, " \n")]) {
    return NULL;
  }
  free(to->compiler.command);
  to->compiler.command = new_default_command();
  return to->compiler.command == NULL ? fail_memory(ort) : NULL;
}

/* ---- the nodes to take ---- */

static ort_status* claim(const ort_functions* ort, ort_support* support, const ort_node** nodes,
                         size_t count) {
  const ort_fusion fusion = {ORT_VERSION_NEEDED, true};
  return count == 0 ? NULL : ort->ep.AddNodesToFuse(support, nodes, count, &fusion);
}

/* Read the lines of the compiler: each has the indices of the nodes of one part. */
static ort_status* claim_parts(const ort_functions* ort, ort_support* support, bytes* text,
                               const ort_node* const* nodes, size_t count) {
  const ort_node** part = calloc(count + 1, sizeof(*part));
  size_t size = 0;
  char *at, *end;
  ort_status* status = NULL;
  bytes_add(text, "", 1);
  if (part == NULL || text->failed) {
    free(part);
    return fail_memory(ort);
  }
  for (at = text->data; status == NULL && *at != '\0'; at = end) {
    const unsigned long index = strtoul(at, &end, 10);
    if (end == at || index >= count || size >= count) {
      status = fail(ort, ORT_EP_FAIL,
                    "tvmrt: the command lists parts that the graph lacks; check "
                    "that it is of the same version of tvmrt");
    } else {
      part[size++] = nodes[index];
      if (*end == '\n') {
        status = claim(ort, support, part, size);
        size = 0;
      }
      end += *end != '\0';
    }
  }
  free(part);
  return status;
}

static ort_status* compile_parts(const provider* p, const ort_graph* graph, ort_support* support,
                                 const ort_node* const* nodes, size_t count) {
  bytes model = {NULL, 0, 0, false}, parts = {NULL, 0, 0, false};
  ort_status* status = write_model(p->ort, graph, NULL, &model);
  if (status == NULL) status = run_compiler(p->ort, &p->compiler, &model, true, &parts);
  if (status == NULL) status = claim_parts(p->ort, support, &parts, nodes, count);
  bytes_free(&parts);
  bytes_free(&model);
  return status;
}

/* Bodies of If, Loop and Scan are part of their nodes: none of their nodes is taken alone. A model
 * with EPContext nodes has been compiled: nothing else is taken, so that no compiler is needed. */
static ort_status* get_capability(void* self, const ort_graph* graph, ort_support* support) {
  const provider* p = self;
  const ort_node *parent = NULL, **nodes = NULL;
  size_t count = 0;
  bool is_compiled = false;
  ort_status* status;
  ORT_TRY(p->ort->api.Graph_GetParentNode(graph, &parent));
  if (parent != NULL) return NULL;
  ORT_TRY(graph_nodes(p->ort, graph, &nodes, &count));
  status = NULL;
  for (size_t i = 0; status == NULL && i < count; ++i) {
    bool is = false;
    status = context_is_ours(p->ort, nodes[i], &is);
    if (status == NULL && is) {
      is_compiled = true;
      status = claim(p->ort, support, &nodes[i], 1);
    }
  }
  if (status == NULL && !is_compiled && count > 0) {
    status = compile_parts(p, graph, support, nodes, count);
  }
  free(nodes);
  return status;
}

/* ---- compiling them ---- */

static ort_status* compile_graph(const provider* p, const ort_graph* graph, const ort_node* fused,
                                 kernel** out, ort_node** context) {
  bytes model = {NULL, 0, 0, false}, library = {NULL, 0, 0, false};
  size_t inputs = 0, outputs = 0;
  ort_status* status = write_model(p->ort, graph, fused, &model);
  if (status == NULL) status = run_compiler(p->ort, &p->compiler, &model, false, &library);
  bytes_free(&model);
  if (status == NULL) status = p->ort->api.Node_GetNumInputs(fused, &inputs);
  if (status == NULL) status = p->ort->api.Node_GetNumOutputs(fused, &outputs);
  if (status == NULL) {
    status = kernel_from_bytes(p->ort, library.data, library.size, inputs, outputs, out);
  }
  if (status == NULL && p->context.is_written && context != NULL) {
    status = context_node(p->ort, &p->context, graph, fused, &library, context);
  }
  bytes_free(&library);
  return status;
}

static ort_status* compile_one(const provider* p, const ort_graph* graph, const ort_node* fused,
                               kernel** out, ort_node** context) {
  const ort_node** nodes = NULL;
  size_t count = 0;
  bool is = false;
  ort_status* status;
  ORT_TRY(graph_nodes(p->ort, graph, &nodes, &count));
  status = count == 1 ? context_is_ours(p->ort, nodes[0], &is) : NULL;
  if (status == NULL) {
    status = is ? context_load(p->ort, &p->context, graph, nodes[0], out)
                : compile_graph(p, graph, fused, out, context);
  }
  free(nodes);
  return status;
}

static void release_kernels(void* self, void** kernels, size_t count) {
  (void)self;
  for (size_t i = 0; i < count; ++i) {
    kernel_free(kernels[i]);
    kernels[i] = NULL;
  }
}

static ort_status* compile(void* self, const ort_graph** graphs, const ort_node** fused,
                           size_t count, void** kernels, ort_node** contexts) {
  for (size_t i = 0; i < count; ++i) {
    kernel* made = NULL;
    ort_status* status =
        compile_one(self, graphs[i], fused[i], &made, contexts == NULL ? NULL : &contexts[i]);
    kernels[i] = made;
    if (status != NULL) {
      release_kernels(self, kernels, i + 1);
      return status;
    }
  }
  return NULL;
}

static const char* get_name(const void* self) {
  (void)self;
  return EP_NAME;
}

ort_status* provider_new(const ort_functions* ort, const ort_options* options, provider** out) {
  provider* p = calloc(1, sizeof(*p));
  ort_status* status;
  *out = NULL;
  if (p == NULL) return fail_memory(ort);
  p->table.version = ORT_VERSION_NEEDED;
  p->table.slots[OrtEp_GetName] = (ort_slot)get_name;
  p->table.slots[OrtEp_GetCapability] = (ort_slot)get_capability;
  p->table.slots[OrtEp_Compile] = (ort_slot)compile;
  p->table.slots[OrtEp_ReleaseNodeComputeInfos] = (ort_slot)release_kernels;
  p->ort = ort;
  status = read_options(ort, options, p);
  if (status != NULL) {
    provider_free(p);
  } else {
    *out = p;
  }
  return status;
}

void provider_free(provider* of) {
  if (of == NULL) return;
  free(of->compiler.command);
  free(of->compiler.dims);
  free(of->compiler.min_nodes);
  free(of->compiler.target);
  free(of->context.path);
  free(of);
}
