/* Writing of the module tree that a library carries in `__tvm_dev_mblob`, see modules/mblob.c. */
#include "mblob_write.h"

#include <stdlib.h>
#include <string.h>

/* Modules that become part of the shared library are merged into one entry, "_lib"; the others keep
 * their order. `group[i]` is the entry of module i. */
typedef struct packing {
  tvmrt_module** modules; /* borrowed; every module precedes its imports */
  size_t num_modules;
  size_t* group;
  tvmrt_module** entries; /* borrowed; NULL is the library */
  size_t num_entries;
  bool has_library;
  size_t library_entry;
} packing;

/* Whether a module's code is linked into the library file itself: it has no bytes in the blob. */
static bool is_in_library(const tvmrt_module* mod) {
  return strcmp(mod->type->key, TVMRT_LIBRARY_KEY) == 0 ||
         (mod->type->properties & TVMRT_MODULE_EXPORTABLE) != 0;
}

/* The number of modules if `mod` is none of them. Linear: trees have few modules. */
static size_t index_of(const packing* p, const tvmrt_module* mod) {
  size_t i;
  for (i = 0; i < p->num_modules && p->modules[i] != mod; ++i) continue;
  return i;
}

/* A depth-first walk, with its stack on the heap. */
typedef struct frame {
  tvmrt_module* mod;
  size_t next; /* import to visit next, counted from the last */
} frame;

typedef struct walk_stack {
  frame* frames;
  size_t depth;
} walk_stack;

/* The stack is on the heap, so the depth of the tree is not limited. */
static int push(walk_stack* stack, tvmrt_module* mod) {
  void* frames = stack->frames;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&frames, stack->depth, sizeof(*stack->frames)));
  stack->frames = frames;
  stack->frames[stack->depth].mod = mod;
  stack->frames[stack->depth].next = 0;
  ++stack->depth;
  return 0;
}

/* The caller has checked that it is not there yet. */
static int append_module(packing* p, tvmrt_module* mod) {
  void* modules = p->modules;
  TVMRT_RETURN_IF_ERROR(tvmrt__grow(&modules, p->num_modules, sizeof(*p->modules)));
  p->modules = modules;
  p->modules[p->num_modules++] = mod;
  return 0;
}

/* Visit the next import of the top module, or leave that module. Imports are visited in reverse, so
 * that the reversed result keeps the imports' own order. */
static int walk_step(packing* p, walk_stack* stack) {
  frame* top = &stack->frames[stack->depth - 1];
  tvmrt_module* mod = top->mod;
  if (top->next < mod->num_imports) {
    tvmrt_module* import = mod->imports[mod->num_imports - 1 - top->next++];
    return index_of(p, import) < p->num_modules ? 0 : push(stack, import);
  }
  --stack->depth;
  return index_of(p, mod) < p->num_modules ? 0 : append_module(p, mod);
}

/* Post-order over the imports; reversed, every module precedes its imports. */
static int collect(packing* p, tvmrt_module* root) {
  walk_stack stack = {NULL, 0};
  int rc = push(&stack, root);
  while (rc == 0 && stack.depth > 0) rc = walk_step(p, &stack);
  free(stack.frames);
  return rc;
}

/* The root was collected last, and must come first. */
static void reverse_modules(packing* p) {
  size_t i;
  for (i = 0; i < p->num_modules / 2; ++i) {
    tvmrt_module* other = p->modules[p->num_modules - 1 - i];
    p->modules[p->num_modules - 1 - i] = p->modules[i];
    p->modules[i] = other;
  }
}

/*
 * Number the entries. The library's entry takes the position of its last member, after which no
 * other module imports a member; modules that only members import come later by construction.
 */
static int number_entries(packing* p) {
  size_t i;
  size_t last = 0;
  p->group = tvmrt__calloc(p->num_modules, sizeof(*p->group));
  p->entries = tvmrt__calloc(p->num_modules, sizeof(*p->entries));
  if (p->group == NULL || p->entries == NULL) return -1;
  for (i = 0; i < p->num_modules; ++i) {
    if (is_in_library(p->modules[i])) {
      p->has_library = true;
      last = i;
    }
  }
  for (i = 0; i < p->num_modules; ++i) {
    if (is_in_library(p->modules[i])) {
      if (i == last) p->library_entry = p->num_entries;
      if (i != last) continue;
      p->entries[p->num_entries++] = NULL;
    } else {
      p->group[i] = p->num_entries;
      p->entries[p->num_entries++] = p->modules[i];
    }
  }
  for (i = 0; i < p->num_modules; ++i) {
    if (is_in_library(p->modules[i])) p->group[i] = p->library_entry;
  }
  return 0;
}

/* Mark the entries that `mod` imports, except itself. */
static void mark_children(const packing* p, const tvmrt_module* mod, size_t entry, bool* marks) {
  size_t k;
  for (k = 0; k < mod->num_imports; ++k) {
    size_t child = p->group[index_of(p, mod->imports[k])];
    if (child != entry) marks[child] = true;
  }
}

/* `marks` is a caller-provided buffer with one element per entry. Children are written in the order
 * of entries, each once, even if several members import it. */
static int append_children(const packing* p, size_t entry, bool* marks, tvmrt_buf* children) {
  size_t i;
  memset(marks, 0, p->num_entries * sizeof(*marks));
  for (i = 0; i < p->num_modules; ++i) {
    if (p->group[i] == entry) mark_children(p, p->modules[i], entry, marks);
  }
  for (i = 0; i < p->num_entries; ++i) {
    if (!marks[i]) continue;
    if (i < entry) {
      return tvmrt__fail_value(
          "the library's modules and another module import each other; "
          "such a tree cannot be saved.");
    }
    TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(children, 8, i));
  }
  return 0;
}

/* Rows are the ends of child lists, as in a compressed sparse matrix. */
static int write_tree(const packing* p, tvmrt_buf* out) {
  tvmrt_buf rows = {NULL, 0, 0};
  tvmrt_buf children = {NULL, 0, 0};
  bool* marks = tvmrt__calloc(p->num_entries, sizeof(*marks));
  size_t i;
  int rc = marks == NULL ? -1 : tvmrt__write_uint(&rows, 8, 0);
  for (i = 0; rc == 0 && i < p->num_entries; ++i) {
    rc = append_children(p, i, marks, &children);
    if (rc == 0) rc = tvmrt__write_uint(&rows, 8, children.size / 8);
  }
  if (rc == 0) rc = tvmrt__write_string(out, TVMRT_MBLOB_TREE);
  if (rc == 0) rc = tvmrt__write_uint(out, 8, p->num_entries + 1);
  if (rc == 0) rc = tvmrt__buf_append(out, rows.data, rows.size);
  if (rc == 0) rc = tvmrt__write_uint(out, 8, children.size / 8);
  if (rc == 0) rc = tvmrt__buf_append(out, children.data, children.size);
  tvmrt__buf_free(&rows);
  tvmrt__buf_free(&children);
  free(marks);
  return rc;
}

/* NULL stands for the library, whose code is in the file itself. */
static int write_entry(tvmrt_module* mod, tvmrt_buf* out) {
  if (mod == NULL) return tvmrt__write_string(out, TVMRT_MBLOB_LIBRARY);
  if (mod->type->save == NULL) {
    return tvmrt__fail_value("a module of kind '%s' cannot be saved into a library.",
                             mod->type->key);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__write_string(out, mod->type->key));
  return mod->type->save(mod, out);
}

/* A single library needs no tree, which older readers do not support. */
static int write_stream(packing* p, tvmrt_module* root, tvmrt_buf* out) {
  bool with_tree = root->num_imports != 0 || !is_in_library(root);
  size_t i;
  TVMRT_RETURN_IF_ERROR(collect(p, root));
  reverse_modules(p);
  TVMRT_RETURN_IF_ERROR(number_entries(p));
  TVMRT_RETURN_IF_ERROR(tvmrt__write_uint(out, 8, p->num_entries + (with_tree ? 1 : 0)));
  for (i = 0; i < p->num_entries; ++i) TVMRT_RETURN_IF_ERROR(write_entry(p->entries[i], out));
  return with_tree ? write_tree(p, out) : 0;
}

/* The caller frees `out`, also on failure. */
int tvmrt__mblob_pack(tvmrt_module* root, tvmrt_buf* out) {
  packing p = {0};
  tvmrt_buf stream = {NULL, 0, 0};
  int rc = write_stream(&p, root, &stream);
  if (rc == 0) rc = tvmrt__write_data(out, stream.data, stream.size);
  tvmrt__buf_free(&stream);
  free(p.modules);
  free(p.group);
  free(p.entries);
  return rc;
}
