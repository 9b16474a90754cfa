#include "daemon/cli/live_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compression/base/names.h"
#include "compression/base/words.h"
#include "daemon/cli/format.h"
#include "daemon/cli/status_json.h"
#include "membership/run/ending.h"
#include "membership/run/ledger.h"

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

std::string Loss(double loss) { return loss > 0 ? absl::StrFormat("%.3f", loss) : "-"; }

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
  const auto& evaluations = history.evaluations();
  std::string line = "validation loss ";
  if (evaluations.empty()) {
    line += "-";
  } else if (evaluations.size() == 1) {
    line += Loss(evaluations.begin()->second.loss());
  } else {
    absl::StrAppend(&line, Loss(evaluations.begin()->second.loss()), " -> ",
                    Loss(evaluations.rbegin()->second.loss()));
  }
  if (!evaluations.empty() && evaluations.rbegin()->second.own_parties() > 0) {
    const v1::EvaluationRecord& last = evaluations.rbegin()->second;
    absl::StrAppend(&line, "   of parties ", Loss(last.own_mean()), " (80 % within ",
                    Loss(last.own_tenth()), " to ", Loss(last.own_ninetieth()), ")");
  }
  if (!history.rounds().empty()) {
    absl::StrAppend(&line, "   training loss ",
                    Loss(history.rounds().rbegin()->second.train_loss()));
  }
  const std::string used = history.rounds().empty()
                               ? "-"
                               : UtilisationText(history.rounds().rbegin()->second.utilisation());
  if (used != "-") absl::StrAppend(&line, "   utilisation ", used);
  if (history.bytes_sent_per_peer_per_round() > 0) {
    absl::StrAppend(&line, "   ", FormatBytes(history.bytes_sent_per_peer_per_round()),
                    " sent a peer a round");
  }
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
          gone ? "-" : absl::StrCat(progress.step(), "/", progress.steps()),
          gone ? "-" : FormatRate(progress.tokens_per_second()),
          gone ? "-" : Loss(progress.loss()),
          gone ? "-" : UtilisationText(peer.newest.utilisation()),
          absl::StrCat(peer.newest.rounds_contributed()),
          FormatBytes(static_cast<double>(peer.bytes_sent)),
          absl::StrCat(peer.newest.pid())};
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
  const double spent = history.rounds().empty() ? 0 : history.rounds().rbegin()->second.epsilon();
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
  const std::string unit = history.loss_unit().empty() ? "" : " " + history.loss_unit();
  // Evaluations first when they are of an older version: lines stay in the order of versions.
  const auto tell_evaluations = [&](uint64_t below) {
    for (const auto& [version, evaluation] : history.evaluations()) {
      if (version >= below || !told_evaluations_.emplace(version, true).second) continue;
      lines.push_back(absl::StrFormat("version %d: validation loss %.4f%s over %s %s", version,
                                      evaluation.loss(), unit, WithThousands(evaluation.tokens()),
                                      Noun(evaluation.tokens(), "token")));
      lines.back() += OwnLossText(evaluation);
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

LiveScreen::LiveScreen(FILE* out) : out_(out) {
  std::fputs("\x1b[?25l", out_);
  std::fflush(out_);
}

LiveScreen::~LiveScreen() {
  std::fputs("\x1b[?25h", out_);
  std::fflush(out_);
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
  shown_.assign(lines.begin(),
                lines.begin() + static_cast<ptrdiff_t>(std::min(lines.size(), fitting)));
  for (const std::string& line : shown_) {
    absl::StrAppend(&text, "\x1b[2K", Printable(line), "\n");
  }
  text += "\x1b[J";
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void LiveScreen::PrintAbove(const std::string& line) {
  const std::vector<std::string> view = shown_;
  Clear();
  PrintLine(out_, line);
  Draw(view);
}

void LiveScreen::Clear() {
  if (!shown_.empty()) std::fputs(absl::StrCat("\x1b[", shown_.size(), "A\r\x1b[J").c_str(), out_);
  shown_.clear();
  std::fflush(out_);
}

}  // namespace atolld
