// The dashboard: a page that shows a run in a browser, and the data that the page requests.
//
//   /             the page, which is also served at /peer/ID, with its script and style
//   /listed.js    the figures of a peer that the page shows (PeerFiguresScript)
//   /api/run      the state of the run as JSON (RunBoard::RunJson)
//   /api/rounds   the rounds from version ?from= on, as JSON
//   /api/events   the changes of the state as they happen, as text/event-stream
//
// The files of the page are in page/, and are embedded in the binary. Thread-safe.
#pragma once

#include "daemon/web/http_server.h"
#include "daemon/web/run_board.h"

namespace atolld {

// Adds these paths to `server`. `board` must outlive the server.
void ServeDashboard(HttpServer& server, const RunBoard& board);

}  // namespace atolld
