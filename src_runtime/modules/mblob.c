/* Reading and writing of the module tree that a library carries in `__tvm_dev_mblob`.
 *
 * u64 N, then N bytes: u64 count; per entry u64 length, type key, payload of that kind. Entry
 * "_lib" stands for the library itself; entry "_import_tree" gives the imports of all others as
 * compressed rows: vec<u64> row_ptr, vec<u64> child_indices. Without a tree all entries are imports
 * of the library.
 *
 * A library that imports one module of kind "k", whose payload is the 64-bit number 7:
 *
 *   N | 3 | 4 "_lib" | 1 "k" 7 | 12 "_import_tree" | 3: 0 1 1 | 1: 1
 *
 * Module 0 is the library, module 1 is of kind "k". The imports of module i are the children from
 * row_ptr[i] up to row_ptr[i + 1]: module 0 imports module 1, module 1 nothing. Modules precede
 * their imports, so the first one is the root and no file can contain a cycle. */
#include <stdlib.h>
#include <string.h>

#include "module.h"

static const char lib_key[] = "_lib";
static const char tree_key[] = "_import_tree";

/* A tree as it was read, in the order of the entries: child numbers are indices of `modules`. */
typedef struct tree {
  tvmrt_module** modules; /* retained */
  size_t num_modules;
  uint64_t* row_ptr; /* NULL without a tree */
  size_t num_rows;
  uint64_t* children;
  size_t num_children;
  bool has_library;
} tree;

/* Also for a partly read tree; the returned root has been retained for the caller by then. */
static void free_tree(tree* t) {
  size_t i;
  for (i = 0; i < t->num_modules; ++i) tvmrt__module_release(t->modules[i]);
  free(t->modules);
  free(t->row_ptr);
  free(t->children);
}

/* Read a count, then as many 64-bit numbers. The count is checked against the remaining bytes, so
 * the allocation is bounded. */
static int read_numbers(tvmrt_reader* in, uint64_t** out, size_t* out_count) {
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 8, out_count));
  free(*out); /* a second tree in a damaged blob replaces the first */
  *out = tvmrt__calloc(*out_count, sizeof(**out));
  if (*out == NULL) return -1;
  for (i = 0; i < *out_count; ++i) TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(in, 8, &(*out)[i]));
  return 0;
}

/* Takes ownership of the reference, also on failure. */
static int add_module(tree* t, tvmrt_module* owned) {
  void* modules = t->modules;
  if (tvmrt__grow(&modules, t->num_modules, sizeof(*t->modules)) != 0) {
    tvmrt__module_release(owned);
    return -1;
  }
  t->modules = modules;
  t->modules[t->num_modules++] = owned;
  return 0;
}

/* The payload of another kind is read by its loader, possibly a plug-in's, which leaves the reader
 * after its part. */
static int read_entry(tvmrt_reader* in, const char* key, tvmrt_module* library, tree* t) {
  tvmrt_module* mod;
  if (strcmp(key, tree_key) == 0) {
    TVMRT_RETURN_IF_ERROR(read_numbers(in, &t->row_ptr, &t->num_rows));
    return read_numbers(in, &t->children, &t->num_children);
  }
  if (strcmp(key, lib_key) == 0) {
    if (t->has_library) return tvmrt__reader_fail(in, "the library is listed twice");
    t->has_library = true;
    tvmrt__retain(&library->base);
    return add_module(t, library);
  }
  TVMRT_RETURN_IF_ERROR(tvmrt__read_kind(in, key, &mod));
  return add_module(t, mod);
}

/* Read a count, then a key and a payload each. Payloads state no length, so an unknown kind ends
 * the reading. */
static int read_entries(tvmrt_reader* in, tvmrt_module* library, tree* t) {
  size_t count;
  size_t i;
  TVMRT_RETURN_IF_ERROR(tvmrt__read_count(in, 8, &count));
  for (i = 0; i < count; ++i) {
    char* key;
    int rc;
    TVMRT_RETURN_IF_ERROR(tvmrt__read_string(in, &key));
    rc = read_entry(in, key, library, t);
    free(key);
    if (rc != 0) return rc;
  }
  return 0;
}

/* Rows must be monotonic and children point forward, so that the tree has no cycle. */
static int check_tree(const tvmrt_reader* in, const tree* t) {
  size_t i;
  uint64_t k;
  if (t->num_rows != t->num_modules + 1 || t->row_ptr[0] != 0 ||
      t->row_ptr[t->num_modules] != t->num_children) {
    return tvmrt__reader_fail(in, "the import tree does not fit the modules");
  }
  for (i = 0; i < t->num_modules; ++i) {
    if (t->row_ptr[i] > t->row_ptr[i + 1] || t->row_ptr[i + 1] > t->num_children) {
      return tvmrt__reader_fail(in, "the row pointers of the import tree are not ascending");
    }
    for (k = t->row_ptr[i]; k < t->row_ptr[i + 1]; ++k) {
      if (t->children[k] <= i || t->children[k] >= t->num_modules) {
        return tvmrt__reader_fail(in, "the import tree refers to a missing or an earlier module");
      }
    }
  }
  return 0;
}

/* A library that is loaded again keeps its imports from the first time (`linked`). */
static int link_tree(const tree* t, const tvmrt_module* linked, tvmrt_module** out_root) {
  size_t i;
  uint64_t k;
  for (i = 0; i < t->num_modules; ++i) {
    if (t->modules[i] == linked) continue;
    for (k = t->row_ptr[i]; k < t->row_ptr[i + 1]; ++k) {
      TVMRT_RETURN_IF_ERROR(tvmrt__module_import(t->modules[i], t->modules[t->children[k]]));
    }
  }
  *out_root = t->modules[0];
  return 0;
}

/* The old layout without a tree: all modules are imports of the library. */
static int import_all(const tree* t, tvmrt_module* library, tvmrt_module** out_root) {
  size_t i;
  for (i = 0; i < t->num_modules; ++i) {
    if (t->modules[i] == library) continue;
    TVMRT_RETURN_IF_ERROR(tvmrt__module_import(library, t->modules[i]));
  }
  *out_root = library;
  return 0;
}

/* Children only point forward, so the first module is the root. */
static int link_modules(const tvmrt_reader* in, const tree* t, tvmrt_module* library,
                        tvmrt_module** out_root) {
  const tvmrt_module* linked = library->num_imports > 0 ? library : NULL;
  if (t->row_ptr == NULL || t->num_modules == 0) {
    if (linked == NULL) return import_all(t, library, out_root);
    *out_root = library;
    return 0;
  }
  TVMRT_RETURN_IF_ERROR(check_tree(in, t));
  return link_tree(t, linked, out_root);
}

/* The library is one of the tree's modules, and may have imports of an earlier load, which are then
 * kept. *out_root is owned. */
int tvmrt__mblob_restore(const uint8_t* blob, size_t symbol_size, tvmrt_module* library,
                         tvmrt_module** out_root) {
  tvmrt_reader in;
  uint64_t size;
  tree t = {0};
  tvmrt_module* root = NULL;
  const bool first = library->num_imports == 0;
  int rc;
  *out_root = NULL;
  tvmrt__reader_init(&in, "the embedded module tree", blob, symbol_size == 0 ? 8 : symbol_size);
  TVMRT_RETURN_IF_ERROR(tvmrt__read_uint(&in, 8, &size));
  if (symbol_size != 0 && size > tvmrt__reader_left(&in)) {
    return tvmrt__reader_fail(&in, "its length is larger than its symbol");
  }
  if (size > PTRDIFF_MAX) return tvmrt__reader_fail(&in, "its length is larger than memory");
  in.bytes.end = in.bytes.at + size; /* without a symbol size, the length is trusted */
  rc = read_entries(&in, library, &t);
  if (rc == 0) rc = link_modules(&in, &t, library, &root);
  if (rc == 0) {
    tvmrt__retain(&root->base);
    *out_root = root;
  } else if (first) {
    tvmrt__module_clear_imports(library); /* discard a partly linked tree */
  }
  free_tree(&t);
  return rc;
}

/*
 * Writing. Modules that become part of the shared library are merged into one entry, "_lib"; the
 * others keep their order. `group[i]` is the entry of module i.
 */
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
  return mod->type == &tvmrt__library_type ||
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
  if (rc == 0) rc = tvmrt__write_string(out, tree_key);
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
  if (mod == NULL) return tvmrt__write_string(out, lib_key);
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
