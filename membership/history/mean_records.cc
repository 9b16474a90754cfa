#include "membership/history/mean_records.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compression/base/bitmap.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "membership/experts/expert_parts.h"

namespace atolld {
namespace {

constexpr size_t kLongestReducer = 256;

bool IsOf(const v1::ContributorSet& set, const std::string& contributors,
          const std::vector<std::string>& partials) {
  return set.contributors() == contributors &&
         std::equal(partials.begin(), partials.end(), set.partials().begin(), set.partials().end());
}

// Checks that a set is valid: its bits are those of contributors.
absl::Status CheckSet(const v1::ContributorSet& set, size_t contributors) {
  if (set.contributors().size() != BitmapBytes(contributors)) {
    return absl::InvalidArgumentError(absl::StrCat("a bitmap of ", set.contributors().size(),
                                                   " bytes for ",
                                                   Counted(contributors, "contributor")));
  }
  if (CountBits(set.contributors()) == 0 && set.partials().empty()) return absl::OkStatus();
  if (!ValidBitmap(set.contributors(), contributors)) {
    return absl::InvalidArgumentError("its bitmap names a contributor beyond the last");
  }
  if (!ValidParts(set.partials(), set.contributors(), contributors)) {
    return absl::InvalidArgumentError(
        "its partial means overlap, are out of order or name others than its contributors");
  }
  return absl::OkStatus();
}

absl::Status CheckSets(const v1::MeanRecords& records, size_t contributors) {
  std::set<std::string> seen;  // compared only within this process
  for (int i = 0; i < records.sets_size(); ++i) {
    const std::string context = absl::StrCat("set ", i);
    RETURN_IF_ERROR(Annotate(CheckSet(records.sets(i), contributors), context));
    if (!seen.insert(records.sets(i).SerializeAsString()).second) {
      return absl::InvalidArgumentError(absl::StrCat(context, " is there twice"));
    }
  }
  return absl::OkStatus();
}

// `named` is the number of sets that runs before this shard have named.
absl::Status CheckRuns(const v1::ShardRecord& shard, uint32_t* named) {
  uint64_t chunks = 0;
  for (int i = 0; i < shard.runs_size(); ++i) {
    const v1::ChunkRun& run = shard.runs(i);
    chunks += run.chunks();
    if (run.chunks() == 0) return absl::InvalidArgumentError("it has a run of 0 chunks");
    if (i > 0 && run.set() == shard.runs(i - 1).set()) {
      return absl::InvalidArgumentError("two runs that follow each other are of one set");
    }
    if (run.set() > *named) {
      return absl::InvalidArgumentError(
          absl::StrCat("it names set ", run.set(), ", and the next one is ", *named));
    }
    *named += run.set() == *named ? 1 : 0;
  }
  if (chunks == shard.chunks()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its runs have ", chunks, " chunks, it has ", shard.chunks()));
}

absl::Status CheckShard(const v1::ShardRecord& shard, uint64_t first_chunk, uint64_t chunks,
                        uint32_t* named) {
  if (shard.first_chunk() != first_chunk) {
    return absl::InvalidArgumentError(absl::StrCat("it begins at chunk ", shard.first_chunk(),
                                                   ", the one before it ends at ", first_chunk));
  }
  if (shard.chunks() == 0 || shard.chunks() > chunks - first_chunk) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", shard.chunks(), " chunks, ",
                                                   chunks - first_chunk, " are left of the grid"));
  }
  if (shard.reducer().empty() || shard.reducer().size() > kLongestReducer) {
    return absl::InvalidArgumentError("a reducer's name has 1 to 256 bytes");
  }
  return CheckRuns(shard, named);
}

// Checks that only chunks of experts have a mean of nobody, and that a mean counts only updates
// that cover its chunk.
absl::Status CheckParts(const v1::MeanRecords& records, const ChunkGrid& grid,
                        absl::Span<const absl::string_view> owned) {
  absl::Status sound;
  const auto check = [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
    const bool nobody = CountBits(set.contributors()) == 0;
    for (uint32_t chunk = first; chunk < first + chunks; chunk = grid.EndOfPart(chunk)) {
      const uint32_t part = grid.Part(chunk);
      if (nobody && part == 0) {
        sound.Update(absl::InvalidArgumentError(
            absl::StrCat("chunk ", chunk, ": its set of contributors is empty")));
      }
      for (size_t i = 0; i < owned.size() && part != 0; ++i) {
        if (!BitAt(set.contributors(), i) || Covers(owned[i], part)) continue;
        sound.Update(absl::InvalidArgumentError(absl::StrCat(
            "chunk ", chunk, " counts contributor ", i, ", which does not own its expert")));
      }
    }
  };
  for (const v1::ShardRecord& shard : records.shards()) ForEachRun(records, shard, check);
  return sound;
}

}  // namespace

bool FitAVote(const v1::MeanRecords& records) {
  return records.ByteSizeLong() <= kMostMeanRecordsBytes;
}

void MeanRecordsBuilder::BeginShard(uint32_t first_chunk, const std::string& reducer) {
  v1::ShardRecord* const shard = records_.add_shards();
  shard->set_first_chunk(first_chunk);
  shard->set_reducer(reducer);
}

void MeanRecordsBuilder::Add(const std::string& contributors,
                             const std::vector<std::string>& partials, uint32_t chunks) {
  v1::ShardRecord* const shard = records_.mutable_shards(records_.shards_size() - 1);
  shard->set_chunks(shard->chunks() + chunks);
  if (shard->runs_size() > 0) {
    v1::ChunkRun* const last = shard->mutable_runs(shard->runs_size() - 1);
    if (IsOf(records_.sets(static_cast<int>(last->set())), contributors, partials)) {
      last->set_chunks(last->chunks() + chunks);
      return;
    }
  }
  const auto next = static_cast<uint32_t>(records_.sets_size());
  const auto [place, fresh] = numbers_.try_emplace(Key(contributors, partials), next);
  if (fresh) {
    v1::ContributorSet* const set = records_.add_sets();
    set->set_contributors(contributors);
    for (const std::string& partial : partials) set->add_partials(partial);
  }
  v1::ChunkRun* const run = shard->add_runs();
  run->set_chunks(chunks);
  run->set_set(place->second);
}

const v1::ContributorSet& SetOf(const v1::MeanRecords& records, const v1::ChunkRun& run) {
  const bool there = run.set() < static_cast<uint32_t>(records.sets_size());
  return there ? records.sets(static_cast<int>(run.set())) : v1::ContributorSet::default_instance();
}

const v1::ContributorSet& SetOfChunk(const v1::MeanRecords& records, uint32_t chunk) {
  const v1::ContributorSet* found = &v1::ContributorSet::default_instance();
  for (const v1::ShardRecord& shard : records.shards()) {
    if (chunk < shard.first_chunk() || chunk - shard.first_chunk() >= shard.chunks()) continue;
    ForEachRun(records, shard, [&](uint32_t first, uint32_t chunks, const v1::ContributorSet& set) {
      if (chunk >= first && chunk - first < chunks) found = &set;
    });
  }
  return *found;
}

absl::Status CheckMeanRecords(const v1::MeanRecords& records, const ChunkGrid& grid,
                              size_t contributors, absl::Span<const absl::string_view> owned) {
  const uint64_t chunks = grid.chunks();
  uint64_t chunk = 0;
  uint32_t named = 0;
  for (int i = 0; i < records.shards_size(); ++i) {
    RETURN_IF_ERROR(
        Annotate(CheckShard(records.shards(i), chunk, chunks, &named), absl::StrCat("shard ", i)));
    chunk += records.shards(i).chunks();
  }
  if (chunk != chunks) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shards hold ", chunk, " chunks, the run's grid has ", chunks));
  }
  if (named != static_cast<uint32_t>(records.sets_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", records.sets_size(), " sets, of which runs name ", named));
  }
  RETURN_IF_ERROR(CheckSets(records, contributors));
  return CheckParts(records, grid, owned);
}

}  // namespace atolld
