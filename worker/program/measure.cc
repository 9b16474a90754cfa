// Measures how long an inner step of a run takes on this machine, before the machine has any of the
// run's data.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "atoll/v1/run.pb.h"
#include "compression/base/status_macros.h"
#include "worker/base/flags.h"
#include "worker/data/training_data.h"
#include "worker/program/commands.h"
#include "worker/training/device.h"
#include "worker/training/math_library.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

constexpr uint32_t kBytes = 256;

constexpr uint64_t kLargestSpecBytes = uint64_t{64} << 20;

// Enough that no two steps share samples, and that a validation split has one sequence.
constexpr uint64_t kSequences = 64;

// Reads the RunSpec from the whole of standard input (--spec -).
absl::StatusOr<v1::RunSpec> SpecFromInput() {
  std::string bytes;
  char part[65536];
  for (ssize_t got = 0; (got = ::read(STDIN_FILENO, part, sizeof part)) > 0;) {
    bytes.append(part, static_cast<size_t>(got));
    if (bytes.size() > kLargestSpecBytes) break;
  }
  v1::RunSpec spec;
  if (!bytes.empty() && bytes.size() <= kLargestSpecBytes && spec.ParseFromString(bytes)) {
    return spec;
  }
  return absl::DataLossError("standard input is not a serialised RunSpec");
}

// Returns the next value in [0, 1).
double Draw(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return static_cast<double>(*state >> 11) * 0x1p-53;
}

// Returns printable ASCII, each character equally likely, because a text must be UTF-8.
std::string RandomText(uint64_t bytes) {
  constexpr uint8_t kFirst = ' ', kCharacters = '~' - kFirst + 1;
  std::string text(bytes, kFirst);
  uint64_t state = 1;
  for (char& c : text) {
    c = static_cast<char>(kFirst + static_cast<uint8_t>(Draw(&state) * kCharacters));
  }
  return text;
}

// Sets parameters that belong to no run; they are small, so that the loss is finite.
absl::Status FillParameters(Trainer& trainer) {
  uint64_t state = 2;
  for (float& value : trainer.parameters()) {
    value = static_cast<float>((Draw(&state) - 0.5) * 0.04);
  }
  return trainer.PushParameters();
}

absl::StatusOr<double> StepSeconds(Trainer& trainer, uint64_t step, uint32_t batch) {
  std::vector<uint64_t> samples;
  for (uint32_t i = 0; i < batch; ++i) samples.push_back(step * batch + i);
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(trainer.Step(step, samples).status());
  return absl::ToDoubleSeconds(absl::Now() - begin);
}

}  // namespace

absl::Status RunMeasure(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags,
                   Flags::Parse(arguments, {"spec", "device", "threads", "seconds"}));
  ASSIGN_OR_RETURN(const std::string from, flags.Text("spec"));
  ASSIGN_OR_RETURN(const std::string device, flags.Text("device", "auto"));
  ASSIGN_OR_RETURN(const uint64_t threads, flags.Count("threads", 1));
  ASSIGN_OR_RETURN(const double seconds, flags.Number("seconds", 5.0));
  if (from != "-") return absl::InvalidArgumentError("--spec must be -, for standard input");
  ASSIGN_OR_RETURN(v1::RunSpec spec, SpecFromInput());
  spec.clear_experts();  // a step trains all of them
  // The random bytes are tokens of a tokenizer of 256; a few rows more cost next to nothing.
  spec.mutable_model()->set_vocabulary(std::max(spec.model().vocabulary(), kBytes));
  const int used = SetMathThreads(static_cast<int>(threads));
  ASSIGN_OR_RETURN(const std::vector<std::string> devices, ResolveDevices(device, ProbeGpus()));
  const uint64_t sequence = uint64_t{spec.model().context()} + 1;
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingData> data,
                   TrainingData::FromText(RandomText(2 * kSequences * sequence), 0.5));
  ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::Make(spec, *data, devices));
  RETURN_IF_ERROR(FillParameters(*trainer));
  const uint32_t batch = spec.inner().batch();
  // The first step takes memory that the others have; where one is very long it has to do.
  ASSIGN_OR_RETURN(double spent, StepSeconds(*trainer, 0, batch));
  uint64_t steps = 1;
  if (spent < seconds) {
    spent = 0;
    for (steps = 0; spent < seconds / 2; ++steps) {
      ASSIGN_OR_RETURN(const double one, StepSeconds(*trainer, steps + 1, batch));
      spent += one;
    }
  }
  const double step = spent / static_cast<double>(steps);
  std::cout << absl::StrFormat(
      "{\"step_seconds\": %.6g, \"tokens_per_second\": %.6g, \"steps\": %d, \"device\": "
      "\"%s\", \"threads\": %d}\n",
      step, static_cast<double>(batch) * spec.model().context() / step, steps,
      absl::StrJoin(devices, ","), used);
  return absl::OkStatus();
}

}  // namespace atolld
