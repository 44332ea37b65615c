#include "provider.h"

#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

#define OWN_PREFIX "ep." EP_NAME "."

static const char* const keys_of_options[NUM_OPTIONS] = {
    [OPTION_COMMAND] = OWN_PREFIX "command",           [OPTION_DIMS] = OWN_PREFIX "dims",
    [OPTION_MIN_NODES] = OWN_PREFIX "min_nodes",       [OPTION_TARGET] = OWN_PREFIX "target",
    [OPTION_CONTEXT_IS_WRITTEN] = "ep.context_enable",
};

/* Other values are checked by the compiler, which knows the targets and the network's dimensions. */
static void check_min_nodes(job* j, const char* value) {
  const size_t digits = strspn(value, "0123456789");
  if (digits > 0 && value[digits] == '\0' && strspn(value, "0") < digits) return;
  job_fail(
      j, ORT_INVALID_ARGUMENT,
      "the provider option min_nodes has the value '%s'; give a whole number from 1 on, such as "
      "3, in digits",
      value);
}

static void read_option(job* j, provider* to, const char* key, const char* value) {
  size_t i = 0;
  while (i < NUM_OPTIONS && strcmp(key, keys_of_options[i]) != 0) ++i;
  if (i == NUM_OPTIONS) { /* an option of tvmrt with another name would be ignored silently */
    if (strncmp(key, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0) {
      job_fail(j, ORT_INVALID_ARGUMENT,
               "there is no provider option %s; choose from dims, min_nodes, target, command",
               key + sizeof(OWN_PREFIX) - 1);
    }
  } else if (i != OPTION_COMMAND || value[strspn(value, " ")] != '\0') {
    free(to->options[i]);
    TVM(j, (to->options[i] = tvmrt__strdup(value)) == NULL ? -1 : 0);
    if (i == OPTION_MIN_NODES) check_min_nodes(j, value);
  }
}

static void read_options(job* j, const ort_options* options, provider* to) {
  const char *const *keys = NULL, *const *values = NULL;
  void* pairs = NULL;
  size_t count = 0;
  ORT(j, api.GetSessionOptionsConfigEntries, options, &pairs);
  if (pairs == NULL) return;
  j->ort->api.GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; !j->has_failed && i < count; ++i) read_option(j, to, keys[i], values[i]);
  j->ort->api.ReleaseKeyValuePairs(pairs);
}

/* ---- the nodes to take ---- */

static void claim(job* j, ort_support* support, const void* const* nodes, size_t count) {
  const ort_fusion fusion = {ORT_VERSION_NEEDED, true};
  if (count > 0) ORT(j, ep.AddNodesToFuse, support, nodes, count, &fusion);
}

/* Read the lines of the compiler: each has the indices of the nodes of one part. */
static void claim_parts(job* j, ort_support* support, const tvmrt_buf* text, list nodes) {
  const void** part = job_alloc(j, nodes.count + 1, sizeof(*part));
  size_t size = 0;
  char *at = text->data, *end;
  if (part == NULL || at == NULL) return;
  for (; *at != '\0'; at = end + (*end != '\0')) {
    const unsigned long index = strtoul(at, &end, 10);
    if (end == at || index >= nodes.count || size >= nodes.count) {
      job_fail(j, ORT_EP_FAIL,
               "the command lists parts that the graph lacks; check that it is of the same version "
               "of tvmrt");
      return;
    }
    part[size++] = nodes.items[index];
    if (*end == '\n') {
      claim(j, support, part, size);
      size = 0;
    }
  }
}

/* End a job that failed by the error of an option. onnxruntime only logs errors of GetCapability, so
 * a node is claimed: then compile() is called, whose errors let the session fail. */
static ort_status* postpone_error(job* j, ort_support* support, const ort_node* node) {
  job next = {.ort = j->ort};
  ort_status* status = job_end(j);
  if (status != NULL) j->ort->api.ReleaseStatus(status);
  claim(&next, support, (const void* const*)&node, 1);
  return job_end(&next);
}

/* Bodies of If, Loop and Scan are part of their nodes: none of their nodes is taken alone. A model
 * with EPContext nodes has been compiled: nothing else is taken, so that no compiler is needed. */
static ort_status* get_capability(void* self, const ort_graph* graph, ort_support* support) {
  provider* p = self;
  job j = {.ort = p->ort};
  const ort_node* parent = NULL;
  tvmrt_buf model = {NULL, 0, 0}, parts = {NULL, 0, 0};
  const char* result;
  bool is_compiled = false;
  list nodes = {NULL, 0};
  ORT(&j, api.Graph_GetParentNode, graph, &parent);
  if (parent == NULL) nodes = LIST(&j, Graph, Nodes, graph);
  for (size_t i = 0; i < nodes.count; ++i) {
    if (!context_is_ours(&j, nodes.items[i])) continue;
    is_compiled = true;
    claim(&j, support, &nodes.items[i], 1);
  }
  if (nodes.count > 0 && !is_compiled) {
    write_model(&j, graph, NULL, &model);
    result = run_compiler(&j, p, &model, true);
    if (TVM(&j, tvmrt__read_file(result, &parts))) claim_parts(&j, support, &parts, nodes);
  }
  tvmrt__buf_free(&parts);
  tvmrt__buf_free(&model);
  if (p->wrong_option != NULL && nodes.count > 0) {
    return postpone_error(&j, support, nodes.items[0]);
  }
  return job_end(&j);
}

/* ---- compiling them ---- */

static ort_status* compile_one(provider* p, const ort_graph* graph, const ort_node* fused,
                               void** out, ort_node** context) {
  const char *is_written = p->options[OPTION_CONTEXT_IS_WRITTEN], *library;
  job j = {.ort = p->ort};
  const list nodes = LIST(&j, Graph, Nodes, graph);
  tvmrt_buf model = {NULL, 0, 0};
  if (p->wrong_option != NULL) job_fail(&j, ORT_INVALID_ARGUMENT, "%s", p->wrong_option);
  if (nodes.count == 1 && context_is_ours(&j, nodes.items[0])) {
    *out = context_load(&j, nodes.items[0], fused);
  } else {
    write_model(&j, graph, fused, &model);
    library = run_compiler(&j, p, &model, false);
    tvmrt__buf_free(&model);
    *out = kernel_load(&j, library, fused);
    if (context != NULL && is_written != NULL && strcmp(is_written, "1") == 0) {
      *context = context_node(&j, fused, library);
    }
  }
  return job_end(&j);
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
  ort_status* status = NULL;
  size_t i = 0;
  for (; status == NULL && i < count; ++i) {
    status =
        compile_one(self, graphs[i], fused[i], &kernels[i], contexts == NULL ? NULL : &contexts[i]);
  }
  if (status != NULL) release_kernels(self, kernels, i);
  return status;
}

const char* provider_name(const void* self) {
  (void)self;
  return EP_NAME;
}

static const ort_slot slots[ORT_OWN_SLOTS] = {
    [OrtEp_GetName] = (ort_slot)provider_name,
    [OrtEp_GetCapability] = (ort_slot)get_capability,
    [OrtEp_Compile] = (ort_slot)compile,
    [OrtEp_ReleaseNodeComputeInfos] = (ort_slot)release_kernels,
};

ort_status* provider_create(void* self, const ort_hardware* const* hardware,
                            const void* const* metadata, size_t count, const ort_options* options,
                            const void* logger, provider** out) {
  job j = {.ort = &((const factory*)self)->ort};
  provider* p = own_new(&j, sizeof(*p), slots);
  (void)hardware, (void)metadata, (void)count, (void)logger;
  if (p != NULL) {
    p->ort = j.ort;
    read_options(&j, options, p);
  }
  if (j.has_failed) {
    provider_release(self, p);
    p = NULL;
  }
  *out = p;
  return job_end(&j);
}

void provider_release(void* self, provider* of) {
  (void)self;
  if (of == NULL) return;
  for (size_t i = 0; i < NUM_OPTIONS; ++i) free(of->options[i]);
  free(of->wrong_option);
  free(of);
}
