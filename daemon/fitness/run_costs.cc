#include "daemon/fitness/run_costs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "daemon/config/config_sections.h"
#include "daemon/program/format.h"
#include "daemon/program/process.h"
#include "membership/history/fragment.h"
#include "membership/history/run_codecs.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

constexpr double kSecondsADay = 86400;

// The bytes on the network for each byte of a message: headers of HTTP/2, TLS and the packets, and
// the answering packets.
constexpr double kWireBytes = 1.07;
// The share of a cap that is left for messages.
constexpr double kCapShare = 0.93;

// Below this a round of even a small model is all exchange.
constexpr double kTooSlowLine = 0.5e6 / 8;
// A peer with such rounds makes the others wait this long, or is late each time.
constexpr double kLongRoundSeconds = 3600;

// The parameters, and a buffer of the outer rule.
constexpr double kStateBytesAParameter = 8;

// Enough for libtorch from a cold disk, and a first step that is very long.
constexpr int kMeasurePatience = 300;

// A faster line is too fast to measure: the bytes pass in too short a time.
constexpr double kFastestTold = 1e9 / 8;

std::string MeasuredRate(double bytes_per_second) {
  if (bytes_per_second <= kFastestTold) return FormatBitRate(bytes_per_second);
  return absl::StrCat("over ", FormatBitRate(kFastestTold));
}

std::string AboutSeconds(double seconds) {
  return seconds < 0.05 ? "under 0.1 s" : FormatSeconds(seconds);
}

}  // namespace

absl::StatusOr<StepSpeed> MeasureStep(const std::string& worker, const v1::RunSpec& spec,
                                      uint32_t threads, const std::string& device, int seconds) {
  const std::string& kind = spec.model().kind();
  if (kind == kStubKind) {
    return StepSpeed{static_cast<double>(spec.inner().step_microseconds()) / 1e6, 0, ""};
  }
  if (IsForeign(kind)) {
    return absl::UnimplementedError(
        absl::StrCat("a model of kind ", kind, " shows its speed with its own data only"));
  }
  if (!spec.model().base_digest().empty()) {
    return absl::UnimplementedError("adapters show their speed on top of their base only");
  }
  const std::string record = spec.SerializeAsString();
  ASSIGN_OR_RETURN(
      const std::string answer,
      RunAndCapture({worker, "measure", "--spec", "-", "--threads", absl::StrCat(threads),
                     "--device", device, "--seconds", absl::StrCat(seconds)},
                    kMeasurePatience, {}, [&](const WriteInput& write) {
                      return write(absl::MakeConstSpan(
                          reinterpret_cast<const uint8_t*>(record.data()), record.size()));
                    }));
  const nlohmann::json found = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  for (const char* key : {"step_seconds", "tokens_per_second"}) {
    if (found.is_object() && found.contains(key) && found[key].is_number()) continue;
    return absl::InternalError(absl::StrCat(worker, " measure gave no ", key, ": ", answer));
  }
  return StepSpeed{found["step_seconds"].get<double>(), found["tokens_per_second"].get<double>(),
                   found.value("device", "")};
}

double RoundCost::rounds_a_day() const { return train_seconds > 0 ? kSecondsADay / seconds() : 0; }

RoundCost CostOf(const v1::RunSpec& spec, uint32_t peers, bool dialled, double step_seconds,
                 const LineSpeed& line) {
  RoundCost cost;
  cost.train_seconds = step_seconds * spec.inner().steps();
  if (IsForeign(spec.model().kind()) || peers < 2) return cost;
  const uint64_t parameters = TrainedParameters(spec.model());
  cost.state_bytes = kStateBytesAParameter * static_cast<double>(parameters) * kWireBytes;
  const absl::StatusOr<LevelCodecs> codecs = CarriedCodecsOf(spec);
  if (!codecs.ok()) return cost;
  // As evenly as fragments are divided, which only the manifest tells.
  const uint32_t fragments = FragmentsOf(spec);
  const EncodedSize size = EncodedSizeOf((parameters + fragments - 1) / fragments,
                                         spec.exchange().chunk_elements(), *codecs);
  // A peer that can be dialled averages an equal share, and so has that share of its own update and
  // of the mean already; any other peer sends its whole update and gets the whole mean.
  const double others = dialled ? (peers - 1.0) / peers : 1.0;
  const double updates = others * size.update_bytes, means = others * size.mean_bytes;
  cost.up_bytes = kWireBytes * (dialled ? updates + means : updates);
  cost.down_bytes = kWireBytes * (dialled ? updates + means : means);
  if (line.up > 0 && line.down > 0) {
    cost.exchange_seconds =
        std::max(cost.up_bytes / kWireBytes / line.up, cost.down_bytes / kWireBytes / line.down);
  }
  return cost;
}

LineSpeed UnderCaps(const LineSpeed& line, const MachineConfig& machine) {
  const auto under = [](double measured, uint64_t cap) {
    return cap == 0 ? measured : std::min(measured, kCapShare * static_cast<double>(cap));
  };
  return {under(line.up, machine.up_cap), under(line.down, machine.down_cap)};
}

Finding LineFinding(const absl::StatusOr<LineSpeed>& line, const MachineConfig& machine) {
  if (!line.ok()) {
    return {Weight::kDoubtful, absl::StrCat("line: not measured: ", line.status().message())};
  }
  std::string text = absl::StrCat("line: ", MeasuredRate(line->up), " up and ",
                                  MeasuredRate(line->down), " down, to the coordinator");
  if (machine.up_cap > 0 || machine.down_cap > 0) {
    const auto cap = [](uint64_t rate) {
      return rate == 0 ? std::string("none") : FormatBitRate(static_cast<double>(rate));
    };
    absl::StrAppend(&text, "; [machine] caps: ", cap(machine.up_cap), " up, ",
                    cap(machine.down_cap), " down");
  }
  const LineSpeed left = UnderCaps(*line, machine);
  if (std::min(left.up, left.down) >= kTooSlowLine) return {Weight::kGood, text};
  return {Weight::kDoubtful, absl::StrCat(text, "; others would wait for so slow a line")};
}

Finding SpeedFinding(const absl::StatusOr<StepSpeed>& speed, const v1::RunSpec& spec) {
  if (!speed.ok()) {
    const bool unknown = absl::IsUnimplemented(speed.status());
    return {unknown ? Weight::kGood : Weight::kDoubtful,
            absl::StrCat("speed: not measured: ", speed.status().message())};
  }
  const double round = speed->step_seconds * spec.inner().steps();
  std::string text = absl::StrFormat("speed: %.3g s an inner step", speed->step_seconds);
  if (speed->tokens_per_second > 0) {
    absl::StrAppend(&text, ", ", FormatRate(speed->tokens_per_second), " tokens/s");
  }
  absl::StrAppend(&text, speed->device.empty() ? ", as the run says" : " on ", speed->device,
                  "; the ", Counted(spec.inner().steps(), "step"), " of a round take ",
                  AboutSeconds(round));
  if (round <= kLongRoundSeconds) return {Weight::kGood, text};
  return {Weight::kDoubtful,
          absl::StrCat(text, ", and a peer that takes so long is late where others are faster")};
}

std::vector<Finding> CostFindings(const RoundCost& cost, const MachineConfig& machine) {
  std::vector<Finding> findings;
  if (cost.up_bytes <= 0) return findings;
  findings.push_back(
      {Weight::kGood, absl::StrCat("fetch: the newest state is about ",
                                   FormatBytes(cost.state_bytes), ", once, on joining")});
  std::string text = absl::StrCat("cost: a round sends ", FormatBytes(cost.up_bytes),
                                  " and receives ", FormatBytes(cost.down_bytes));
  Weight weight = Weight::kGood;
  if (cost.rounds_a_day() > 0) {
    absl::StrAppend(&text, " in ", AboutSeconds(cost.exchange_seconds), " after ",
                    AboutSeconds(cost.train_seconds), " of training: at most ",
                    WithThousands(static_cast<uint64_t>(cost.rounds_a_day())), " rounds and ",
                    FormatBytes(cost.bytes_a_day()), " a day");
    if (cost.exchange_seconds > cost.train_seconds) {
      weight = Weight::kDoubtful;
      absl::StrAppend(&text, "; its line, and not its training, would be what others wait for");
    }
  }
  const auto limit = static_cast<double>(machine.bytes_a_day);
  if (limit > 0 && cost.bytes_a_day() > limit) {
    weight = Weight::kDoubtful;
    absl::StrAppend(&text, "; [machine] bytes_a_day = ", FormatBytes(limit),
                    " pauses it after about ",
                    FormatSeconds(kSecondsADay * limit / cost.bytes_a_day()));
  }
  findings.push_back({weight, std::move(text)});
  return findings;
}

std::vector<Finding> LookAtCosts(const CostQuestion& question) {
  std::vector<Finding> findings;
  absl::StatusOr<LineSpeed> line = absl::UnimplementedError("no coordinator is named");
  if (question.measure_line) {
    line = question.measure_line();
    findings.push_back(LineFinding(line, question.machine));
  }
  double step_seconds = 0;
  if (!question.worker.empty()) {
    absl::StatusOr<StepSpeed> speed = MeasureStep(question.worker, question.spec, question.threads,
                                                  question.device, question.step_seconds);
    if (speed.ok()) {
      speed->step_seconds *= question.slower;
      speed->tokens_per_second /= question.slower;
    }
    findings.push_back(SpeedFinding(speed, question.spec));
    if (speed.ok()) step_seconds = speed->step_seconds;
  }
  const LineSpeed rates = line.ok() ? UnderCaps(*line, question.machine) : LineSpeed();
  const RoundCost cost =
      CostOf(question.spec, question.peers, question.dialled, step_seconds, rates);
  for (Finding& finding : CostFindings(cost, question.machine)) {
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace atolld
