#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include "log.h"

#include <inttypes.h>

static void print_string(FILE *log, const char *text) {
  fputc('"', log);
  for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++) {
    if (*byte == '"' || *byte == '\\') {
      fprintf(log, "\\%c", *byte);
    } else if (*byte < 0x20) {
      fprintf(log, "\\u%04x", *byte);
    } else {
      fputc(*byte, log);
    }
  }
  fputc('"', log);
}

static const char *boolean(bool value) { return value ? "true" : "false"; }

void log_call(FILE *log, const struct logged_call *call) {
  fprintf(
    log, "{\"type\":\"call\",\"number\":%ld,\"thread\":%d,\"name\":\"%s\",\"effect\":\"%s\",\"path\":", call->number,
    call->thread, call->call->name, effect_name(call->effect));
  print_string(log, call->touched->path);
  if (call->touched->second[0]) {
    fputs(",\"second\":", log);
    print_string(log, call->touched->second);
  }
  if (call->byte_count >= 0) fprintf(log, ",\"bytes\":%" PRId64, call->byte_count);
  if (call->offset >= 0) fprintf(log, ",\"offset\":%" PRId64, call->offset);
  fprintf(log, ",\"hit\":%s}\n", boolean(call->is_hit));
}

void log_end(FILE *log, const struct logged_end *end) {
  fprintf(
    log,
    "{\"type\":\"end\",\"calls\":%ld,\"fired\":%s,\"timedOut\":%s,\"status\":%d,\"otherStatus\":%d,"
    "\"otherBlocked\":%s}\n",
    end->call_count, boolean(end->has_fired), boolean(end->has_timed_out), end->command_status, end->other_status,
    boolean(end->other_was_blocked));
  fflush(log);
}

#endif
