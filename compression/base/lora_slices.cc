#include "compression/base/lora_slices.h"

#include "absl/strings/str_cat.h"

namespace atolld {

std::string SliceName(uint32_t number) { return absl::StrCat("slice", number); }

absl::Status CheckLoraSlice(uint32_t rank, uint32_t slice, absl::string_view section) {
  if (slice > 0 && slice < rank && rank % slice == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(section, "lora_slice is ", slice,
                                                 "; it must divide ", section, "lora_rank (", rank,
                                                 ") and be less than that"));
}

absl::Status CheckFirstRanks(uint32_t own, uint32_t rank, uint32_t slice, absl::string_view name) {
  if (own == 0 || (slice != 0 && own % slice == 0 && own <= rank)) return absl::OkStatus();
  if (slice == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", own,
                     ", and the run's adapters are whole ([model] lora_slice = "
                     "0): leave it out, or make a run with [model] lora_slice"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", own, "; it must be a multiple of [model] lora_slice (", slice,
                   "), at most [model] lora_rank (", rank, ")"));
}

}  // namespace atolld
