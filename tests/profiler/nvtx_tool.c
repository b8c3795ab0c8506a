/* A tool for NVTX: prints what ranges are pushed and popped. Loaded through NVTX_INJECTION64_PATH. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*callback)(void);
struct callbacks {
  size_t size;
  int (*table)(uint32_t module, callback ***table, uint32_t *size);
};
struct attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  int64_t payload;
  int32_t message_type;
  const char *message;
};
enum { CALLBACKS = 1, CORE2 = 5, MARK = 1, START = 2, END = 3, PUSH = 4, POP = 5, REGISTER = 10, REGISTERED = 3, INT64 = 2 };

static int depth, pushed, registered;

static const char *register_string(void *domain, const char *text) {
  registered++;
  return strdup(text);
}

static int push(void *domain, const struct attributes *given) {
  pushed++;
  if (!getenv("QUIET")) {
    printf("%d %s", depth, given->message_type == REGISTERED ? given->message : "?");
    if (given->payload_type == INT64) printf(" [%ld]", (long)given->payload);
    puts("");
  }
  return depth++;
}

static int pop(void *domain) { return --depth; }

static const char *text(const struct attributes *given) {
  return given->message_type == REGISTERED ? given->message : "?";
}

static void mark(void *domain, const struct attributes *given) { printf("! %s\n", text(given)); }

static uint64_t start(void *domain, const struct attributes *given) {
  printf("> %s\n", text(given));
  return 7;
}

static void end(void *domain, uint64_t number) { printf("< %lu\n", (unsigned long)number); }

static void finish(void) { printf("depth %d, pushed %d, texts %d\n", depth, pushed, registered); }

int InitializeInjectionNvtx2(const void *(*exported)(uint32_t)) {
  const struct callbacks *found = exported(CALLBACKS);
  callback **table;
  uint32_t size;
  if (!found->table(CORE2, &table, &size)) return 0;
  *table[MARK] = (callback)mark;
  *table[START] = (callback)start;
  *table[END] = (callback)end;
  *table[PUSH] = (callback)push;
  *table[POP] = (callback)pop;
  *table[REGISTER] = (callback)register_string;
  atexit(finish);
  return 1;
}
