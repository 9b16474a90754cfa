// The live view of a run: a header, a row a peer, and the plain lines that stand for it where there
// is no terminal.
//
// Rendering is pure; LiveScreen alone writes to a terminal, and leaves its cursor as it found it.
// One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "compression/base/terminal.h"
#include "daemon/cli/run_watcher.h"

namespace atolld {

// Lines of at most `width` columns. `notes`: what the watcher itself knows of a peer ("killed by
// signal 9"), by id; it replaces the phase. `elapsed_seconds`: since the first Train.
std::vector<std::string> RenderLiveView(const RunHistory& history,
                                        const std::map<std::string, std::string>& notes,
                                        double elapsed_seconds, size_t width, Charset charset);

// The events of a status that its records do not tell as well: without "round 3: committed by ..."
// and "version 3: validation loss ...".
std::vector<std::string> NotableEvents(const v1::RunStatus& status);

// What became known with a status: one line a round, an evaluation, an event, and one when the
// phase changes to a waiting one. Remembers what it has told.
class PlainLines {
 public:
  std::vector<std::string> Tell(const RunHistory& history, const v1::RunStatus& status);

 private:
  uint64_t told_round_ = 0;
  std::map<uint64_t, bool> told_evaluations_;
  std::string told_reason_;
};

// What may be written to `out` (terminal.h).
Terminal TerminalOf(FILE* out);

// Columns of the terminal behind `out`; 80 if it is none.
size_t TerminalWidth(FILE* out);

// Redraws lines in place at the end of `out`, which must be a terminal that redraws. Lines are
// written as Printable has them.
class LiveScreen {
 public:
  explicit LiveScreen(FILE* out);
  ~LiveScreen();  // shows the cursor again; the last lines stay
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void Draw(const std::vector<std::string>& lines);
  // Puts a line above the view, where it stays.
  void PrintAbove(const std::string& line);
  // Takes the view away, to print below what stands.
  void Clear();

 private:
  FILE* out_;
  std::vector<std::string> shown_;
};

}  // namespace atolld
