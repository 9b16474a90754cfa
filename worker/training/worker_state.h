// Reads and writes the state that a worker keeps on disk for its next start, or for a party's next
// turn: the optimiser's state, the position in private data, personal tensors and control variates.
//
// A file belongs to one party and holds its state after a training for one version. The previous
// file is kept beside it (FormerPath), because a training may have to be repeated if no entry
// includes its update. A file contains the run's id, and is not used if it belongs to another run
// or if its sizes differ. It has moments only of the tensors that were trained, and says which
// these are. The loss of a file is harmless: the optimiser's moments build up again, and the party
// begins anew. Files are little-endian, like all supported machines. The functions may be called
// from any thread.
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

struct PartyParts {
  uint64_t* steps = nullptr;  // The number of steps that the optimiser has done.
  // The number of samples that the party has used in its finished rounds.
  uint64_t* position = nullptr;
  uint64_t* pending = nullptr;  // 1 if the next control variate waits to be adopted, otherwise 0.
  // The vectors in the order of the file: the personal tensors, the control variate, the next
  // control variate, and the optimiser's moments. Each may be empty.
  std::vector<absl::Span<float>> values;
  // For each tensor, when its moments began: InnerOptimizer::State::began. May be empty.
  absl::Span<uint64_t> began;
};

// Identifies the state that a file holds.
struct PartyMark {
  uint64_t version = 0;  // The version for which the last training was; 0 if unknown.
  bool whole = true;     // False if the state was written in the middle of that training.
};

struct SaveTerms {
  // True if the file must survive a crash of the machine, and not only of this process.
  bool synced = false;
  bool keeps_former = false;  // True if an existing file is moved to FormerPath.
};

// Writes the file. A crash of this process leaves either the old file or the new file at `path`.
// With `keeps_former` it may also leave the old file at FormerPath and no file at `path`.
absl::Status SaveParty(const std::string& path, const std::string& run_id, const PartyParts& parts,
                       const PartyMark& mark, const SaveTerms& terms);
// Makes sure that the file that SaveParty has written survives a crash of the machine.
absl::Status SyncParty(const std::string& path);

// Reads a file into `parts`. Can read the files of earlier releases. Fails with NOT_FOUND if there
// is no such file, with FAILED_PRECONDITION if it belongs to another run, has another shape or has
// moments of other tensors, and with DATA_LOSS if the file is not complete or has values that are
// not finite; the values in `parts` are then undefined, and the caller must set them again.
absl::StatusOr<PartyMark> LoadParty(const std::string& path, const std::string& run_id,
                                    const PartyParts& parts);

// Reads only the mark, from the head of the file. Fails like LoadParty if the head shows the error.
absl::StatusOr<PartyMark> ReadMark(const std::string& path, const std::string& run_id);

// Reads only PartyParts::began, by which the optimiser is given the shape that LoadParty needs.
// Returns an empty vector if every tensor has been trained all the time. Fails like ReadMark.
absl::StatusOr<std::vector<uint64_t>> ReadBegan(const std::string& path, const std::string& run_id);

// Reads only the personal tensors of a file, in the order of PersonalPart (manifest.h). Fails like
// LoadParty, and with FAILED_PRECONDITION if the file does not have `elements` personal values.
absl::StatusOr<std::vector<float>> ReadPersonalTensors(const std::string& path,
                                                       const std::string& run_id,
                                                       uint64_t elements);

// PartyPath returns the path of a virtual party's file, which is beside the worker's own state
// file. FormerPath returns the path at which the previous version of a file is kept.
std::string PartyPath(absl::string_view state_path, uint32_t party);
std::string FormerPath(absl::string_view path);

}  // namespace atolld
