// The live view of a run in the terminal: a header and a row for each peer. Without a terminal,
// plain lines replace it.
//
// Rendering is pure. Only LiveScreen and SaidLines write, and LiveScreen leaves the cursor as it
// found it. Used by one thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compression/base/terminal.h"
#include "daemon/cli/run_watcher.h"

namespace atolld {

// Returns lines of at most `width` columns. `notes` holds, by peer id, what the caller itself knows
// about a peer ("killed by signal 9"); it is shown in place of the peer's phase. `elapsed_seconds`
// is the time since the first Train message.
std::vector<std::string> RenderLiveView(const RunHistory& history,
                                        const std::map<std::string, std::string>& notes,
                                        double elapsed_seconds, size_t width, Charset charset);

// Returns the events of a status without those that its records also show, such as "round 3:
// committed by ..." and "version 3: validation loss ...".
std::vector<std::string> NotableEvents(const v1::RunStatus& status);

// Turns statuses into plain lines. Tell returns a line for each round, evaluation and event that it
// has not returned before, and one if the phase has changed to waiting.
class PlainLines {
 public:
  std::vector<std::string> Tell(const RunHistory& history, const v1::RunStatus& status);

 private:
  uint64_t told_round_ = 0;
  std::map<uint64_t, bool> told_evaluations_;
  std::string told_reason_;
};

// Returns the abilities of the terminal behind `out` (see terminal.h).
Terminal TerminalOf(FILE* out);

// Returns the columns of the terminal behind `out`; 80 if `out` is not a terminal.
size_t TerminalWidth(FILE* out);

// Returns true if some lines can be written to `out` now without waiting for its reader.
bool TakesOutput(FILE* out);

// Prints lines without ever waiting for the reader: lines that cannot be written immediately are
// left out, and their number is printed as soon as lines can be written again.
class SaidLines {
 public:
  explicit SaidLines(FILE* out) : out_(out) {}
  void Say(absl::string_view line);

 private:
  FILE* const out_;
  uint64_t unsaid_ = 0;
};

// One line on standard error that says how far something has come, and is written over. It shows
// nothing unless standard error is a terminal that redraws.
class ProgressLine {
 public:
  ProgressLine() : terminal_(TerminalOf(stderr).redraws) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void Show(absl::string_view text);
  void Clear();

 private:
  const bool terminal_;
  bool shown_ = false;
};

// Redraws lines in place at the end of `out`, which must be a terminal that redraws. Lines are
// passed through Printable. It never waits for a terminal that is halted (Ctrl-S); it draws nothing
// until the terminal continues.
class LiveScreen {
 public:
  explicit LiveScreen(FILE* out);
  ~LiveScreen();  // shows the cursor again; the last lines remain
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void Draw(const std::vector<std::string>& lines);
  // Prints a line above the view. The line remains.
  void PrintAbove(const std::string& line);
  // Removes the view, so that other text can take its place. Returns false if the terminal accepts
  // no output now.
  bool Clear();

 private:
  bool Put(const std::string& text);

  FILE* out_;
  std::vector<std::string> shown_;
};

}  // namespace atolld
