// The dashboard: the page that shows a run in a browser, and the figures that it shows.
//
//   /             the page, which also serves /peer/ID; its script and style beside it
//   /api/run      what the coordinator knows (RunBoard::RunJson)
//   /api/rounds   rounds, from the version that ?from= names
//   /api/events   the same as it changes, as text/event-stream
//
// The page's files lie in page/ and are part of the binary. Any thread.
#pragma once

#include "daemon/web/http_server.h"
#include "daemon/web/run_board.h"

namespace atolld {

// The board outlives the server.
void ServeDashboard(HttpServer& server, const RunBoard& board);

}  // namespace atolld
