// What a worker keeps on disk for its next start, or for a party's next turn: the optimiser's
// state, the place in private data, personal tensors, control variates.
//
// Tagged with the run; a file whose run or sizes differ is not used. Losing it is legal: moments
// warm up again, and a party begins anew. Files are little-endian as the machines that we run on.
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/training/inner_optimizer.h"

namespace atolld {

// The optimiser's alone, of runs that keep nothing else.

// Durable when it returns.
absl::Status SaveState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state);

// NOT_FOUND: no such file. FAILED_PRECONDITION: of another run or shape. DATA_LOSS: not a whole
// state file. On any error `state` is as before.
absl::Status LoadState(const std::string& path, const std::string& run_id,
                       const InnerOptimizer::State& state);

// A party's.
struct PartyParts {
  uint64_t* steps = nullptr;     // of the optimiser
  uint64_t* position = nullptr;  // samples of its data that its finished rounds went through
  uint64_t* pending = nullptr;   // whether the next control variate waits to be taken; 0 or 1
  // In the file's order: personal tensors, the control variate and the next one, the optimiser's
  // moments. Empty ones are well.
  std::vector<absl::Span<float>> values;
};

enum class Durability {
  kReplaced,  // a crash of this process leaves the old file or the new one
  kSynced,    // so does one of the machine
};

absl::Status SaveParty(const std::string& path, const std::string& run_id, const PartyParts& parts,
                       Durability durability);

// Reads straight into `parts`. NOT_FOUND, FAILED_PRECONDITION, DATA_LOSS as LoadState; after
// DATA_LOSS the values are anything, and the caller sets them anew.
absl::Status LoadParty(const std::string& path, const std::string& run_id, const PartyParts& parts);

// The personal tensors of such a file, as PersonalPart lays them out. NOT_FOUND,
// FAILED_PRECONDITION: as above, or `elements` are not what it has; DATA_LOSS.
absl::StatusOr<std::vector<float>> ReadPersonalTensors(const std::string& path,
                                                       const std::string& run_id,
                                                       uint64_t elements);

// The file of one party beside a worker's own.
std::string PartyPath(absl::string_view state_path, uint32_t party);

}  // namespace atolld
