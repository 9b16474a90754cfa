#include "daemon/replica/state/branch_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "compression/base/status_macros.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/state_digest.h"
#include "daemon/replica/state/state_memory.h"
#include "daemon/replica/state/update_log.h"
#include "daemon/replica/state/verify.h"
#include "membership/history/header.h"
#include "membership/history/lineage.h"
#include "membership/history/state_buffers.h"

namespace atolld {
namespace {

constexpr char kRuleWithoutBuffers[] = "average";

// What the headers up to a version say about the data.
struct Spent {
  uint64_t tokens = 0;
  uint64_t next_sample = 0;
  bool whole = true;
};

Spent SpentUntil(const std::vector<v1::EntryHeader>& log, const v1::Genesis& genesis,
                 uint64_t version) {
  Spent spent;
  spent.next_sample = genesis.spec().parent().next_sample();
  uint64_t headers = 0;
  for (const v1::EntryHeader& header : log) {
    if (header.version() > version) break;
    ++headers;
    for (const v1::Contributor& contributor : header.contributors()) {
      spent.tokens += contributor.tokens();
      for (const v1::SampleRange& range : contributor.samples()) {
        spent.next_sample = std::max(spent.next_sample, range.first() + range.count());
      }
    }
  }
  spent.whole = headers == version;
  return spent;
}

absl::StatusOr<std::vector<v1::EntryHeader>> HeadersOf(Files& files, const std::string& dir) {
  ASSIGN_OR_RETURN(std::vector<LogEntryInfo> entries, ListLog(files, dir));
  std::vector<v1::EntryHeader> headers;
  for (LogEntryInfo& entry : entries) headers.push_back(std::move(entry.header));
  return headers;
}

// Returns the state's description as that of a version 0, with its lineage.
v1::SnapshotInfo AsBranch(const v1::SnapshotInfo& state, const v1::Lineage& lineage) {
  v1::SnapshotInfo info = state;
  info.set_version(0);
  info.clear_header();
  *info.mutable_genesis()->mutable_spec()->mutable_parent() = lineage;
  if (!lineage.buffers()) {
    info.mutable_genesis()->mutable_spec()->mutable_outer()->set_rule(kRuleWithoutBuffers);
    info.mutable_genesis()->mutable_spec()->mutable_inner()->clear_control_variates();
    info.mutable_buffers()->DeleteSubrange(1, info.buffers_size() - 1);
  }
  info.set_state_digest(ToBytes(StateDigestOf(info)));
  info.mutable_genesis()->set_state_digest(info.state_digest());
  return info;
}

absl::Status CopyBlocks(Files& files, const SnapshotReader& from, v1::SnapshotInfo info,
                        const std::string& path) {
  const std::string temporary = absl::StrCat(path, ".tmp");
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotWriter> writer,
                   SnapshotWriter::Create(files, temporary, std::move(info)));
  const BlockMap& map = writer->map();
  // Buffers that stay behind begin at zero.
  const bool buffers = writer->info().genesis().spec().parent().buffers();
  const uint64_t taken = buffers ? map.blocks() : map.blocks_a_buffer();
  std::vector<float> values(kBlockElements);
  for (uint64_t block = 0; block < map.blocks(); ++block) {
    const absl::Span<uint8_t> bytes = BytesOf(absl::MakeSpan(values)).subspan(0, map.Bytes(block));
    if (block < taken) {
      RETURN_IF_ERROR(from.ReadBlock(block, bytes));
    } else {
      std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    }
    const absl::Span<const float> read =
        absl::MakeConstSpan(values).subspan(0, bytes.size() / sizeof(float));
    if (const size_t bad = FirstNonFinite(read); bad < read.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(writer->info().buffers(map.Buffer(block)).name(), ": value ",
                       map.InBuffer(block) * kBlockElements + bad,
                       " is not finite; nothing can be trained from this state"));
    }
    RETURN_IF_ERROR(writer->AppendBlock(bytes));
  }
  return writer->Finish(path);
}

absl::StatusOr<BranchMade> MakeFrom(Files& files, const BranchRequest& request,
                                    const std::string& state_path) {
  ASSIGN_OR_RETURN(const MaterializedSnapshot state,
                   MaterializeSnapshot(files, request.dir, state_path, request.version));
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> reader,
                   SnapshotReader::Open(files, state_path));
  BranchMade made;
  made.parent = state.genesis;
  std::vector<v1::EntryHeader> headers = request.headers;
  if (headers.empty()) {
    ASSIGN_OR_RETURN(headers, HeadersOf(files, request.dir));
  }
  const Spent spent = SpentUntil(headers, state.genesis, state.version);
  made.whole_log = spent.whole;
  BranchPoint point;
  point.version = state.version;
  point.state_digest = state.state_digest;
  point.header_digest = reader->info().has_header() ? HeaderDigest(reader->info().header())
                                                    : GenesisDigest(state.genesis);
  point.tokens = spent.tokens;
  point.next_sample = spent.next_sample;
  point.buffers = !request.fresh_outer;
  made.lineage = LineageOf(state.genesis, point);
  RETURN_IF_ERROR(CopyBlocks(files, *reader, AsBranch(reader->info(), made.lineage), request.out));
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.OpenToRead(request.out));
  made.bytes = file->size();
  return made;
}

absl::Status CheckIsBranch(const v1::SnapshotInfo& info, const std::string& path) {
  if (info.version() == 0 && info.genesis().spec().has_parent()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": it is a snapshot of run ",
                                          info.genesis().spec().run_id(),
                                          ", and no branch of it; `atoll run branch` makes one"));
}

// Returns true if the file's lineage and the run's agree; the run may leave buffers out, and has
// its own corpus.
bool IsSameLineage(const v1::Lineage& file, v1::Lineage run) {
  run.set_next_sample(file.next_sample());
  if (file.buffers() && !run.buffers()) run.set_buffers(true);
  // Both were parsed, and are written, by the same code.
  return file.SerializeAsString() == run.SerializeAsString();
}

// Sets the leaves of a buffer of zeros.
void SetZeroLeaves(uint64_t elements, v1::SnapshotBuffer* buffer) {
  const std::vector<uint8_t> zeros(kBlockBytes, 0);
  const std::string whole = ToBytes(Sha256(zeros));
  uint64_t left = elements * sizeof(float);
  while (left >= kBlockBytes) {
    buffer->add_leaves(whole);
    left -= kBlockBytes;
  }
  if (left > 0) {
    buffer->add_leaves(ToBytes(Sha256(absl::MakeConstSpan(zeros).subspan(0, left))));
  }
}

// Returns the description of version 0 of `genesis`, and sets its state digest.
absl::StatusOr<v1::SnapshotInfo> DescribeInitial(const v1::SnapshotInfo& branch,
                                                 const v1::Genesis& genesis) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, StateBuffers(genesis.spec()));
  v1::SnapshotInfo info;
  *info.mutable_genesis() = genesis;
  *info.add_buffers() = branch.buffers(0);
  for (const std::string& name : names) {
    if (genesis.spec().parent().buffers()) {
      const int next = info.buffers_size();
      if (next >= branch.buffers_size() || branch.buffers(next).name() != name) {
        return absl::FailedPreconditionError(
            absl::StrCat("outer rule ", genesis.spec().outer().rule(), " has a buffer ", name,
                         ", which the state of the branch has not"));
      }
      *info.add_buffers() = branch.buffers(next);
      continue;
    }
    v1::SnapshotBuffer* buffer = info.add_buffers();
    buffer->set_name(name);
    buffer->set_elements(branch.buffers(0).elements());
    SetZeroLeaves(buffer->elements(), buffer);
  }
  info.set_state_digest(ToBytes(StateDigestOf(info)));
  info.mutable_genesis()->set_state_digest(info.state_digest());
  return info;
}

}  // namespace

absl::StatusOr<BranchMade> WriteBranchFile(Files& files, const BranchRequest& request) {
  if (files.Exists(request.out)) {
    return absl::AlreadyExistsError(
        absl::StrCat(request.out, " is there already; nothing is overwritten"));
  }
  const std::string state_path = absl::StrCat(request.out, ".state");
  absl::StatusOr<BranchMade> made = MakeFrom(files, request, state_path);
  const absl::Status removed = files.Remove(state_path);
  if (!made.ok()) {
    files.Remove(absl::StrCat(request.out, ".tmp")).IgnoreError();  // the first error is told
    return made.status();
  }
  RETURN_IF_ERROR(removed);
  return made;
}

absl::StatusOr<v1::SnapshotInfo> ReadBranchHead(Files& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> reader,
                   SnapshotReader::OpenPartial(files, path));
  RETURN_IF_ERROR(CheckIsBranch(reader->info(), path));
  return reader->info();
}

v1::Lineage LineageUnder(const v1::SnapshotInfo& branch, const v1::RunSpec& run) {
  v1::Lineage lineage = branch.genesis().spec().parent();
  lineage.clear_next_sample();
  const v1::RunSpec& parent = branch.genesis().spec();
  if (parent.outer().rule() != run.outer().rule() ||
      parent.inner().control_variates() != run.inner().control_variates()) {
    lineage.set_buffers(false);
  }
  return lineage;
}

absl::Status CheckMadeFrom(const v1::SnapshotInfo& branch, const v1::Genesis& genesis) {
  const v1::RunSpec& parent = branch.genesis().spec();
  const v1::Lineage& lineage = genesis.spec().parent();
  if (!IsSameLineage(parent.parent(), lineage)) {
    return absl::InvalidArgumentError(absl::StrCat("version 0 must be ",
                                                   LineageText(parent.parent()), ", and this is ",
                                                   LineageText(lineage)));
  }
  const bool same_corpus = parent.data().digest() == genesis.spec().data().digest();
  const uint64_t next = same_corpus ? parent.parent().next_sample() : 0;
  if (lineage.next_sample() != next) {
    return absl::InvalidArgumentError(absl::StrCat(
        "in ", same_corpus ? "the parent's" : "another", " corpus a branch goes on at ", "sample ",
        next, "; this version 0 says ", lineage.next_sample()));
  }
  const absl::Status tensors = CheckSameTensors({branch.genesis().manifest(), "the branch file"},
                                                {genesis.manifest(), "this version 0"});
  if (!tensors.ok()) return absl::InvalidArgumentError(tensors.message());
  ASSIGN_OR_RETURN(const v1::SnapshotInfo info, DescribeInitial(branch, genesis));
  if (info.state_digest() == genesis.state_digest()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "version 0 must have the parent's state, and the digest of this one is that of another");
}

absl::Status CreateFromBranch(Files& files, const std::string& dir, v1::Genesis genesis,
                              const std::string& path) {
  if (files.Exists(GenesisPath(dir))) {
    return absl::FailedPreconditionError(absl::StrCat(dir, ": it holds a replica already"));
  }
  genesis.clear_state_digest();
  RETURN_IF_ERROR(Annotate(CheckGenesis(genesis), "genesis"));
  ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> branch, SnapshotReader::Open(files, path));
  RETURN_IF_ERROR(CheckIsBranch(branch->info(), path));
  const v1::Genesis& parent = branch->info().genesis();
  if (!IsSameLineage(parent.spec().parent(), genesis.spec().parent())) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is ", LineageText(parent.spec().parent()), "; the run begins at ",
                     LineageText(genesis.spec().parent())));
  }
  RETURN_IF_ERROR(
      CheckSameTensors({parent.manifest(), path}, {genesis.manifest(), "the run's model"}));
  ASSIGN_OR_RETURN(v1::SnapshotInfo info, DescribeInitial(branch->info(), genesis));
  RETURN_IF_ERROR(Annotate(CheckSnapshotInfo(info), path));
  genesis = info.genesis();
  RETURN_IF_ERROR(files.MakeDirectories(SnapshotsDirectory(dir)));
  RETURN_IF_ERROR(CopyBlocks(files, *branch, std::move(info), SnapshotPath(dir, 0)));
  RETURN_IF_ERROR(UpdateLog::Open(files, dir, 0).status());
  RETURN_IF_ERROR(files.SyncDirectory(dir));
  // The genesis comes last: where it stands, the replica is whole.
  return WriteMessageFile(files, GenesisPath(dir), genesis);
}

}  // namespace atolld
