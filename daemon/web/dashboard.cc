#include "daemon/web/dashboard.h"

#include <string>

#include "absl/strings/numbers.h"
#include "daemon/figures/status_json.h"
#include "daemon/web/page_files.h"

namespace atolld {
namespace {

constexpr char kJsonType[] = "application/json";
constexpr char kScriptType[] = "text/javascript; charset=utf-8";

std::string ParameterOf(const HttpRequest& request, const char* name) {
  const auto found = request.parameters.find(name);
  return found == request.parameters.end() ? "" : found->second;
}

}  // namespace

void ServeDashboard(HttpServer& server, const RunBoard& board) {
  for (const PageFile& file : PageFiles()) {
    const auto body = [bytes = file.bytes](const HttpRequest&) { return std::string(bytes); };
    const std::string path(file.path);
    const std::string type(file.content_type);
    server.AddPage(path, type, body);
    if (path != "/page.html") continue;
    server.AddPage("/", type, body);
    server.AddPage("/peer/*", type, body);
  }
  server.AddPage("/listed.js", kScriptType, [](const HttpRequest&) { return PeerFiguresScript(); });
  server.AddPage("/api/run", kJsonType, [&board](const HttpRequest&) { return board.RunJson(); });
  server.AddPage("/api/rounds", kJsonType, [&board](const HttpRequest& request) {
    uint64_t from = 0;
    if (!absl::SimpleAtoi(ParameterOf(request, "from"), &from)) from = 0;
    return board.RoundsJson(from);
  });
  // The browser names its last event in a header; a script that opens a new stream cannot.
  server.AddEvents("/api/events", [&board](const HttpRequest& request) {
    return board.Follow(request.last_event_id.empty() ? ParameterOf(request, "last")
                                                      : request.last_event_id);
  });
}

}  // namespace atolld
