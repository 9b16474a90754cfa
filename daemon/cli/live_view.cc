#include "daemon/cli/live_view.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/names.h"
#include "compression/base/number_words.h"
#include "compression/base/words.h"
#include "daemon/figures/figures.h"
#include "daemon/figures/status_json.h"
#include "daemon/program/format.h"
#include "membership/run/ledger.h"
#include "membership/run/losses.h"

namespace atolld {
namespace {

constexpr size_t kBarColumns = 24;
constexpr size_t kUsualWidth = 80;
constexpr size_t kUsualHeight = 24;

std::string Bar(double share, Charset charset) {
  const bool blocks = charset == Charset::kUnicode;
  const auto full = static_cast<size_t>(
      std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBarColumns)));
  std::string bar;
  for (size_t i = 0; i < kBarColumns; ++i) {
    bar += i < full ? (blocks ? "█" : "#") : (blocks ? "░" : ".");
  }
  return bar;
}

// 0 means an unknown loss; a user's own model may have a negative one.
std::string Loss(double loss) { return FormatMeasured(loss, 3); }

std::string RoundLine(const RunHistory& history, double elapsed_seconds, Charset charset) {
  const v1::RunStatus& status = history.newest();
  const uint64_t rounds = status.spec().rounds();
  std::string line = absl::StrCat(
      "round ", status.version(), " of ", rounds, "  ",
      Bar(rounds == 0 ? 0 : static_cast<double>(status.version()) / static_cast<double>(rounds),
          charset),
      "  ", status.phase().empty() ? "starting" : status.phase(), "  ",
      FormatSeconds(elapsed_seconds));
  const double left = history.seconds_left();
  if (left > 0 && !history.sealed())
    absl::StrAppend(&line, ", about ", FormatSeconds(left), " left");
  return line;
}

std::string LossLine(const RunHistory& history) {
  std::vector<const v1::EvaluationRecord*> known;
  for (const auto& [version, evaluation] : history.evaluations()) {
    if (EvaluatedLoss(evaluation)) known.push_back(&evaluation);
  }
  std::string line = absl::StrCat("validation loss ", known.empty() ? "-" : "");
  if (!known.empty()) absl::StrAppend(&line, NumberText(known.front()->loss(), 3));
  if (known.size() > 1) absl::StrAppend(&line, " -> ", NumberText(known.back()->loss(), 3));
  if (!known.empty() && known.back()->own_parties() > 0) {
    const v1::EvaluationRecord& last = *known.back();
    absl::StrAppend(&line, "   of parties ", NumberText(last.own_mean(), 3), " (80 % within ",
                    NumberText(last.own_tenth(), 3), " to ", NumberText(last.own_ninetieth(), 3),
                    ")");
  }
  if (!history.rounds().empty()) {
    absl::StrAppend(&line, "   training loss ",
                    Loss(history.rounds().rbegin()->second.train_loss()));
  }
  const std::string used = history.rounds().empty()
                               ? "-"
                               : UtilisationText(history.rounds().rbegin()->second.utilisation());
  if (used != "-") absl::StrAppend(&line, "   utilisation ", used);
  const double sent = history.bytes_sent_per_peer_per_round().value_or(0);
  if (sent > 0) absl::StrAppend(&line, "   ", FormatBytes(sent), " sent a peer a round");
  return line;
}

std::vector<std::string> PeerRow(const std::string& id, const PeerHistory& peer,
                                 const std::map<std::string, std::string>& notes) {
  const v1::PeerProgress& progress = peer.newest.progress();
  const std::string& state = peer.newest.member().state();
  const auto note = notes.find(id);
  const bool gone = note != notes.end() || state == "dead" || state == "left";
  std::string phase = note != notes.end() ? note->second
                      : state == "live" || state.empty() || progress.phase().empty()
                          ? progress.phase()
                          : absl::StrCat(state, ", ", progress.phase());
  if (note == notes.end() && (phase.empty() || state == "dead" || state == "left")) phase = state;
  return {id,
          phase,
          gone ? "-" : StepText(progress),
          gone ? "-" : ToldText(peer.newest, "/progress/tokens_per_second"),
          gone ? "-" : Loss(progress.loss()),
          gone ? "-" : UtilisationText(peer.newest.utilisation()),
          absl::StrCat(peer.newest.rounds_contributed()),
          progress.phase().empty() ? "-" : FormatBytes(static_cast<double>(peer.bytes_sent)),
          PidText(peer.newest)};
}

}  // namespace

std::vector<std::string> RenderLiveView(const RunHistory& history,
                                        const std::map<std::string, std::string>& notes,
                                        double elapsed_seconds, size_t width, Charset charset) {
  const v1::RunStatus& status = history.newest();
  std::vector<std::string> lines = {RoundLine(history, elapsed_seconds, charset),
                                    LossLine(history)};
  if (status.noise().tokens() > 0) {
    lines.push_back(absl::StrCat("noise scale ", FormatRate(status.noise().tokens()),
                                 " tokens; peers make ",
                                 FormatRate(static_cast<double>(status.noise().round_tokens())),
                                 ": ", NoiseVerdict(status.noise())));
  }
  std::optional<double> spent = 0;
  if (!history.rounds().empty()) {
    spent = RoundFigures().At("/epsilon").value(history.rounds().rbegin()->second);
  }
  const std::string privacy = PrivacyText(status.spec().privacy(), spent);
  if (!privacy.empty()) lines.push_back(absl::StrCat("privacy: ", privacy));
  if (!status.reason().empty()) lines.push_back(absl::StrCat("waiting: ", status.reason()));
  const auto coordinator = notes.find("coordinator");
  if (coordinator != notes.end())
    lines.push_back(absl::StrCat("coordinator: ", coordinator->second));
  std::vector<std::vector<std::string>> rows = {
      {"peer", "phase", "step", "tokens/s", "loss", "utilised", "rounds", "sent", "pid"}};
  for (const auto& [id, peer] : history.peers()) rows.push_back(PeerRow(id, peer, notes));
  lines.emplace_back();
  for (std::string& line : AlignColumns(rows, "<<>>>>>>>")) lines.push_back(std::move(line));
  for (std::string& line : lines) line = CutToWidth(Printable(line), width, charset);
  return lines;
}

std::vector<std::string> NotableEvents(const v1::RunStatus& status) {
  std::vector<std::string> events;
  for (const std::string& event : status.events()) {
    const bool round =
        absl::StartsWith(event, "round ") && absl::StrContains(event, ": committed by ");
    const bool evaluation =
        absl::StartsWith(event, "version ") && absl::StrContains(event, ": validation loss ");
    if (!round && !evaluation) events.push_back(event);
  }
  return events;
}

std::vector<std::string> PlainLines::Tell(const RunHistory& history, const v1::RunStatus& status) {
  std::vector<std::string> lines = NotableEvents(status);
  if (!status.reason().empty() && status.reason() != told_reason_) {
    lines.push_back(absl::StrCat("waiting: ", status.reason()));
  }
  told_reason_ = status.reason();
  const uint64_t rounds = history.newest().spec().rounds();
  const std::string unit = history.loss_unit();
  // Evaluations first when they are of an older version: lines stay in the order of versions.
  const auto tell_evaluations = [&](uint64_t below) {
    for (const auto& [version, evaluation] : history.evaluations()) {
      if (version >= below || !told_evaluations_.emplace(version, true).second) continue;
      const std::optional<double> loss = EvaluatedLoss(evaluation);
      if (!loss) continue;
      lines.push_back(absl::StrCat("version ", version, ": validation loss ", LossText(*loss, unit),
                                   " over ", WithThousands(evaluation.tokens()), " ",
                                   Noun(evaluation.tokens(), "token"), OwnLossText(evaluation)));
    }
  };
  for (auto it = history.rounds().upper_bound(told_round_); it != history.rounds().end(); ++it) {
    const v1::RoundRecord& round = it->second;
    tell_evaluations(it->first);
    lines.push_back(absl::StrFormat(
        "round %d of %d: training loss %s, %s, %s %s, trained %s, exchanged %s", it->first, rounds,
        FormatMeasured(round.train_loss(), 4), Counted(round.contributors(), "contributor"),
        WithThousands(round.tokens()), Noun(round.tokens(), "token"),
        FormatMeasured(round.train_seconds(), 2, " s"), ExchangeTime(round)));
    if (UtilisationText(round.utilisation()) != "-") {
      absl::StrAppend(&lines.back(), ", utilised ", UtilisationText(round.utilisation()));
    }
    if (round.parties() > 0) {
      absl::StrAppend(&lines.back(), ", ", Counted(round.parties(), "party", "parties"));
    }
    if (round.noise_scale() > 0) {
      absl::StrAppend(&lines.back(), ", noise scale ", AboutTokens(round.noise_scale()), " tokens");
    }
    if (round.epsilon() > 0)
      absl::StrAppendFormat(&lines.back(), ", epsilon %.4g", round.epsilon());
    told_round_ = it->first;
  }
  tell_evaluations(UINT64_MAX);
  return lines;
}

LiveScreen::LiveScreen(FILE* out) : out_(out) { Put("\x1b[?25l"); }

LiveScreen::~LiveScreen() { Put("\x1b[?25h"); }

bool LiveScreen::Put(const std::string& text) {
  if (!TakesOutput(out_)) return false;
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  return true;
}

bool TakesOutput(FILE* out) {
  pollfd polled = {fileno(out), POLLOUT, 0};
  if (polled.fd < 0) return true;  // it is memory
  // One that is broken is not waited for either: the write fails at once.
  return poll(&polled, 1, 0) > 0;
}

void SaidLines::Say(absl::string_view line) {
  if (!TakesOutput(out_)) {
    ++unsaid_;
    return;
  }
  if (unsaid_ > 0) {
    PrintLine(out_, absl::StrCat("(", Counted(unsaid_, "line"),
                                 " were left out here: nobody read them)"));
  }
  unsaid_ = 0;
  PrintLine(out_, line);
  std::fflush(out_);
}

void ProgressLine::Show(absl::string_view text) {
  if (!terminal_) return;
  std::fputs(absl::StrCat("\r\033[K", text, " ").c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::Clear() {
  if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
}

Terminal TerminalOf(FILE* out) { return TerminalFor(isatty(fileno(out)) != 0); }

size_t TerminalWidth(FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

void LiveScreen::Draw(const std::vector<std::string>& lines) {
  winsize size{};
  const bool known = ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
  // Lines that have left the screen cannot be redrawn: never more than fit.
  const size_t fitting = (known ? size_t{size.ws_row} : kUsualHeight) - 1;
  std::string text;
  if (!shown_.empty()) text += absl::StrCat("\x1b[", shown_.size(), "A\r");
  std::vector<std::string> shown(
      lines.begin(), lines.begin() + static_cast<ptrdiff_t>(std::min(lines.size(), fitting)));
  for (const std::string& line : shown) {
    absl::StrAppend(&text, "\x1b[2K", Printable(line), "\n");
  }
  if (Put(text + "\x1b[J")) shown_ = std::move(shown);
}

void LiveScreen::PrintAbove(const std::string& line) {
  const std::vector<std::string> view = shown_;
  if (!Clear()) return;
  PrintLine(out_, line);
  Draw(view);
}

bool LiveScreen::Clear() {
  if (!Put(shown_.empty() ? "" : absl::StrCat("\x1b[", shown_.size(), "A\r\x1b[J"))) return false;
  shown_.clear();
  return true;
}

}  // namespace atolld
