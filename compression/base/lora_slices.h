// Slices of LoRA adapters (ModelSpec.lora_slice): an adapter of rank R is cut into R / slice parts
// of equal rank whose products add up, so that a machine can train the first of them and leave the
// others as they are (Fed-PLoRA, arXiv:2602.16936).
//
// The config, the coordinator and the workers all go by these names and limits. Pure. May be called
// from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace atolld {

// The pattern of the names of the slices' tensors, as ExpertsSpec.tensors has it. PEFT names the
// tensors of an adapter that is called "slice3" so, and atoll-worker does the same.
inline constexpr char kSliceTensors[] = "*.slice#*";

// Returns the name of slice `number`, such as "slice3".
std::string SliceName(uint32_t number);

// Fails with INVALID_ARGUMENT unless adapters of this rank can be cut into at least two slices of
// `slice` ranks. `section` is what comes before the keys' names in the message, as in "[model] ".
absl::Status CheckLoraSlice(uint32_t rank, uint32_t slice, absl::string_view section);

// Fails with INVALID_ARGUMENT unless a machine of a run with these ranks can train, or an export
// can have, the first `own` of them. 0 means all. `name` is what `own` is called in the message.
absl::Status CheckFirstRanks(uint32_t own, uint32_t rank, uint32_t slice, absl::string_view name);

}  // namespace atolld
