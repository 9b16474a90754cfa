#include "daemon/publication/site_check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compression/base/status_macros.h"
#include "daemon/env/posix_files.h"
#include "daemon/env/value_memory.h"
#include "daemon/publication/file_hash.h"
#include "daemon/publication/payload_reader.h"
#include "daemon/publication/run_story.h"
#include "daemon/replica/state/record.h"
#include "daemon/replica/state/replay.h"
#include "daemon/replica/state/snapshot.h"
#include "daemon/replica/state/state_memory.h"
#include "membership/history/header.h"
#include "membership/history/state_buffers.h"

namespace atolld {
namespace {

// What an honest site may have: a record of a header (docs/protocol.md), or of the state.
constexpr uint64_t kLongestHeader = (uint64_t{1} << 20) + kRecordOverhead;
constexpr uint64_t kLongestRecord = kMaxRecordBytes + kRecordOverhead;

class SiteCheck {
 public:
  SiteCheck(Files& files, Site& site, const CheckOrder& order)
      : files_(files), site_(site), order_(order) {}

  absl::StatusOr<CheckedSite> Run() {
    RETURN_IF_ERROR(ReadIndex());
    RETURN_IF_ERROR(CheckRange());
    RETURN_IF_ERROR(CheckTheGenesis());
    RETURN_IF_ERROR(CheckTexts());
    RETURN_IF_ERROR(CheckHeaders());
    if (index_.sealed) RETURN_IF_ERROR(CheckSeal());
    RETURN_IF_ERROR(CheckReceipts());
    result_.all_states = index_.version + 1;
    if (index_.state_version) RETURN_IF_ERROR(Replay());
    RETURN_IF_ERROR(CheckStory());
    result_.index = index_;
    result_.genesis = genesis_;
    return std::move(result_);
  }

 private:
  struct Brought {
    std::string path;
    Digest sha256{};
  };

  absl::Status Fault(const std::string& file, absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(site_.Place(file), ": ", what));
  }
  absl::Status FaultOf(uint64_t version, const std::string& file, absl::string_view what) const {
    return EntryFault(version, site_.Place(file), what);
  }

  void Tell(absl::string_view doing, uint64_t done, uint64_t all) const {
    if (order_.on_progress) order_.on_progress({doing, done, all});
  }

  absl::Status ReadIndex() {
    Tell(kSiteIndex, 0, 1);
    ASSIGN_OR_RETURN(const std::string text, site_.ReadShort(kSiteIndex, kLargestSiteIndex));
    absl::StatusOr<SiteIndex> index = ParseSiteIndex(text);
    if (!index.ok()) return Annotate(index.status(), site_.Place(kSiteIndex));
    index_ = *std::move(index);
    result_.bytes += text.size();
    return absl::OkStatus();
  }

  absl::Status CheckRange() {
    const uint64_t least = index_.state_version.value_or(0);
    first_ = order_.from.value_or(least);
    last_ = order_.to.value_or(index_.version);
    const bool asked = order_.from || order_.to;
    if (asked && !index_.state_version) {
      return absl::NotFoundError(absl::StrCat(
          site_.Place(kSiteIndex), ": the site has no state, so --from and --to choose nothing"));
    }
    if (first_ >= least && first_ <= last_ && last_ <= index_.version) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(site_.Place(kSiteIndex), ": versions ", first_, " to ",
                                            last_, " cannot be derived; ", least, " to ",
                                            index_.version, " can"));
  }

  // Turns the error of a file that run.json names: without it the site is not whole.
  absl::Status NotMissing(const std::string& name, const absl::Status& status) const {
    return absl::IsNotFound(status) ? Fault(name, "run.json names it, and it is missing") : status;
  }

  // Brings a file to this machine, if it is not here, and takes its SHA-256. `limit` is the most
  // bytes that such a file can have.
  absl::StatusOr<Brought> Bring(const std::string& name, uint64_t limit) {
    const SiteFile& file = *index_.Find(name);
    if (file.bytes > limit) {
      return Fault(kSiteIndex, absl::StrCat("it says that ", name, " has ", file.bytes,
                                            " bytes; at most ", limit, " are possible"));
    }
    Brought brought;
    std::unique_ptr<WritableFile> copy;
    const std::optional<std::string> here = site_.PathOf(name);
    if (here) {
      brought.path = *here;
    } else {
      brought.path = absl::StrCat(order_.scratch, "/", name);
      RETURN_IF_ERROR(CheckRoomFor(brought.path, file.bytes));
      ASSIGN_OR_RETURN(copy, files_.Create(brought.path));
    }
    FileHash hash;
    uint64_t done = 0;
    const absl::Status read =
        site_.Read(name, {file.bytes, 0, file.bytes}, [&](absl::Span<const uint8_t> bytes) {
          hash.Add(bytes);
          done += bytes.size();
          Tell(name, done, file.bytes);
          return copy == nullptr ? absl::OkStatus() : copy->Append(bytes);
        });
    RETURN_IF_ERROR(NotMissing(name, read));
    brought.sha256 = hash.Finish();
    result_.bytes += file.bytes;
    ++result_.files;
    return brought;
  }

  absl::Status RequireHash(const std::string& name, const Digest& found) const {
    const SiteFile& file = *index_.Find(name);
    if (file.sha256 == found) return absl::OkStatus();
    return Fault(name, absl::StrCat("its SHA-256 is ", ToHex(found), ", run.json says ",
                                    ToHex(file.sha256)));
  }

  absl::StatusOr<std::string> BringText(const std::string& name, uint64_t limit) {
    ASSIGN_OR_RETURN(const Brought brought, Bring(name, limit));
    RETURN_IF_ERROR(RequireHash(name, brought.sha256));
    return ReadFile(files_, brought.path, limit);
  }

  // Brings a file of one record. Other messages than those of the checksum come first, since they
  // say more.
  absl::Status BringRecord(const std::string& name, google::protobuf::MessageLite* message) {
    ASSIGN_OR_RETURN(const Brought brought, Bring(name, kLongestRecord));
    RETURN_IF_ERROR(RequireHash(name, brought.sha256));
    return ReadMessageFile(files_, brought.path, message);
  }

  absl::Status CheckTheGenesis() {
    RETURN_IF_ERROR(BringRecord(kSiteGenesis, &genesis_));
    const absl::Status sound = CheckGenesis(genesis_);
    if (!sound.ok()) return Fault(kSiteGenesis, sound.message());
    const v1::RunSpec& spec = genesis_.spec();
    const auto other = [this](absl::string_view what) {
      return Fault(kSiteGenesis, absl::StrCat("its ", what, " is not the one in run.json"));
    };
    if (spec.run_id() != index_.run_id) return other("run");
    if (spec.history_key() != index_.history_key) return other("history key");
    if (GenesisDigest(genesis_) != index_.genesis_digest) return other("digest");
    if (genesis_.manifest().elements() != index_.elements) return other("number of parameters");
    if (!order_.history_key.empty() && order_.history_key != spec.history_key()) {
      return absl::PermissionDeniedError(
          absl::StrCat(site_.Place(kSiteGenesis), ": the run has another history key than --key"));
    }
    if (index_.version <= spec.rounds()) return absl::OkStatus();
    return Fault(kSiteIndex, absl::StrCat("it says that there are ", index_.version,
                                          " versions, and the run has ", spec.rounds(), " rounds"));
  }

  absl::Status CheckTexts() {
    ASSIGN_OR_RETURN(page_, BringText(kSitePage, kLargestSiteText));
    ASSIGN_OR_RETURN(story_, BringText(kSiteStory, kLargestSiteText));
    return absl::OkStatus();
  }

  // Compares story and page with what the headers say. Comes last, since the other checks say more
  // of what is wrong.
  absl::Status CheckStory() {
    const absl::Status told = CompareStory(story_, *counted_, genesis_, index_);
    if (!told.ok()) return Fault(kSiteStory, told.message());
    result_.page_compared = index_.software == order_.software;
    if (!result_.page_compared || page_ == PageOf(story_)) return absl::OkStatus();
    return Fault(kSitePage,
                 absl::StrCat("it is not the page that ", index_.software, " makes of story.json"));
  }

  absl::StatusOr<std::vector<uint64_t>> BringOffsets(const std::string& name, uint64_t pieces,
                                                     const std::string& of) {
    const uint64_t length = (pieces + 1) * kSiteOffsetBytes;
    ASSIGN_OR_RETURN(const std::string table, BringText(name, length));
    absl::StatusOr<std::vector<uint64_t>> offsets =
        DecodeOffsets(table, pieces, index_.Find(of)->bytes);
    if (!offsets.ok()) return Fault(name, offsets.status().message());
    return offsets;
  }

  absl::Status CheckHeaders() {
    const uint64_t count = index_.headers();
    ASSIGN_OR_RETURN(header_offsets_, BringOffsets(kSiteHeaderOffsets, count, kSiteHeaders));
    ASSIGN_OR_RETURN(const Brought brought, Bring(kSiteHeaders, count * kLongestHeader));
    ASSIGN_OR_RETURN(headers_, files_.OpenToRead(brought.path));
    Digest previous = GenesisDigest(genesis_);
    counted_.emplace(index_.first_header, count);
    for (uint64_t version = index_.first_header; version <= index_.version; ++version) {
      ASSIGN_OR_RETURN(const v1::EntryHeader header, ReadHeader(version));
      if (version == index_.first_header && version > 1) {
        const absl::StatusOr<Digest> claimed = DigestFromBytes(header.previous_header_digest());
        if (!claimed.ok()) return FaultOf(version, kSiteHeaders, claimed.status().message());
        previous = *claimed;
      }
      const absl::Status chain = CheckHeader(genesis_, version - 1, previous, header);
      if (!chain.ok()) return FaultOf(version, kSiteHeaders, chain.message());
      previous = HeaderDigest(header);
      digests_.push_back(previous);
      counted_->Add(header);
      if (counted_->peers() > RunStory::kMostPeers) {
        return FaultOf(
            version, kSiteHeaders,
            absl::StrCat("the headers up to it name more than ", RunStory::kMostPeers, " peers"));
      }
      ++result_.headers;
      Tell(kCheckingHeaders, result_.headers, count);
    }
    return RequireHash(kSiteHeaders, brought.sha256);
  }

  absl::StatusOr<v1::EntryHeader> ReadHeader(uint64_t version) const {
    const size_t i = version - index_.first_header;
    const uint64_t begin = header_offsets_[i];
    if (begin == header_offsets_[i + 1]) return FaultOf(version, kSiteHeaders, "it is missing");
    const absl::StatusOr<Record> record = ReadRecord(*headers_, begin);
    if (!record.ok()) return FaultOf(version, kSiteHeaders, record.status().message());
    v1::EntryHeader header;
    if (record->torn || record->end != header_offsets_[i + 1] ||
        !header.ParseFromString(record->body)) {
      return FaultOf(version, kSiteHeaders,
                     absl::StrCat("offset ", begin, ": it is not one whole record of a header"));
    }
    return header;
  }

  absl::StatusOr<Digest> DigestOf(uint64_t version) const {
    if (version >= index_.first_header && version <= index_.version) {
      return digests_[version - index_.first_header];
    }
    return absl::NotFoundError(absl::StrCat("the site has no header of version ", version));
  }

  absl::Status CheckSeal() {
    v1::Seal seal;
    RETURN_IF_ERROR(BringRecord(kSiteSeal, &seal));
    const absl::Status vouched = CheckSigned(genesis_.spec(), seal);
    if (!vouched.ok()) return FaultOf(index_.version, kSiteSeal, vouched.message());
    if (seal.run_id() != index_.run_id || seal.version() != index_.version) {
      return FaultOf(index_.version, kSiteSeal, "it seals another run or another version");
    }
    if (!digests_.empty() && seal.header_digest() != ToBytes(digests_.back())) {
      return FaultOf(index_.version, kSiteSeal, "it seals another header");
    }
    const absl::StatusOr<Digest> state = DigestFromBytes(seal.state_digest());
    if (!state.ok()) return FaultOf(index_.version, kSiteSeal, state.status().message());
    sealed_state_ = *state;
    if (index_.state_digest == sealed_state_) return absl::OkStatus();
    return Fault(kSiteIndex, "its state_digest is not that of the seal");
  }

  absl::Status CheckReceipts() {
    if (index_.Find(kSiteReceipts) == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string text, BringText(kSiteReceipts, kLargestSiteReceipts));
    if (!order_.check_receipts) return absl::OkStatus();
    const auto header_of = [this](uint64_t version) -> absl::StatusOr<v1::EntryHeader> {
      RETURN_IF_ERROR(DigestOf(version).status());
      return ReadHeader(version);
    };
    const absl::StatusOr<uint64_t> receipts =
        order_.check_receipts(text, genesis_.spec().history_key(), header_of);
    if (!receipts.ok()) return Fault(kSiteReceipts, receipts.status().message());
    result_.receipts = *receipts;
    return absl::OkStatus();
  }

  // ---------------------------------------------------------------------------------------------

  // The state's file: description and leaves, and the blocks of theta and the buffers.
  uint64_t MostStateBytes(uint64_t buffers) const {
    return kLongestRecord + kSnapshotAlignment +
           (genesis_.manifest().elements() * sizeof(float) + kSnapshotAlignment) * buffers;
  }

  absl::Status Replay() {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, StateBuffers(genesis_.spec()));
    ASSIGN_OR_RETURN(const Brought brought, Bring(kSiteState, MostStateBytes(names.size() + 1)));
    ASSIGN_OR_RETURN(const std::unique_ptr<SnapshotReader> base,
                     SnapshotReader::Open(files_, brought.path));
    RETURN_IF_ERROR(CheckBase(base->info()));
    ASSIGN_OR_RETURN(const std::unique_ptr<ValueMemory> theta,
                     ValueMemory::Make(genesis_.manifest().elements(), order_.scratch));
    ASSIGN_OR_RETURN(StateMemory::Buffers buffers,
                     StateMemory::MakeBuffers(genesis_, order_.scratch));
    StateMemory memory(genesis_, theta->values(), std::move(buffers));
    const absl::Status loaded = memory.Load(*base);
    if (!loaded.ok()) return FaultOf(memory.version(), kSiteState, loaded.message());
    RETURN_IF_ERROR(RequireHash(kSiteState, brought.sha256));
    ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets,
                     BringOffsets(kSitePayloadOffsets, index_.payloads(), kSitePayloads));
    return Step(memory, offsets);
  }

  absl::Status CheckBase(const v1::SnapshotInfo& info) const {
    const uint64_t version = *index_.state_version;
    if (info.version() != version || GenesisDigest(info.genesis()) != index_.genesis_digest) {
      return FaultOf(version, kSiteState, "it is the state of another version or another run");
    }
    if (version == 0) return absl::OkStatus();
    // CheckSnapshotInfo has held the header against the version; its signature vouches for it.
    const absl::Status alone = CheckHeaderAlone(genesis_, info.header());
    if (!alone.ok()) return FaultOf(version, kSiteState, alone.message());
    const Digest digest = HeaderDigest(info.header());
    const absl::StatusOr<Digest> own = DigestOf(version);
    if (own.ok() && *own != digest) {
      return FaultOf(version, kSiteState, "its header is not the one in headers");
    }
    if (own.ok() || version == index_.version) return absl::OkStatus();
    ASSIGN_OR_RETURN(const v1::EntryHeader next, ReadHeader(version + 1));
    if (next.previous_header_digest() == ToBytes(digest)) return absl::OkStatus();
    return FaultOf(version + 1, kSiteHeaders, "it does not follow the header in state");
  }

  // Returns the digest that the signed history gives the state of this version, if it gives one.
  absl::StatusOr<std::optional<Digest>> SaidOf(uint64_t version) const {
    if (version == index_.version) return sealed_state_;
    ASSIGN_OR_RETURN(const v1::EntryHeader next, ReadHeader(version + 1));
    const absl::StatusOr<Digest> said = DigestFromBytes(next.previous_state_digest());
    if (!said.ok()) return FaultOf(version + 1, kSiteHeaders, said.status().message());
    return std::optional<Digest>(*said);
  }

  absl::Status CheckState(const StateMemory& memory) {
    const uint64_t version = memory.version();
    const Digest digest = memory.StateDigest();
    ASSIGN_OR_RETURN(std::optional<Digest> said, SaidOf(version));
    // The chain of headers begins at the genesis, which names the state of version 0.
    if (version == 0 && !genesis_.state_digest().empty()) {
      if (genesis_.state_digest() != ToBytes(digest)) {
        return Fault(kSiteState, absl::StrCat("the state of version 0 has digest ", ToHex(digest),
                                              ", and the genesis names another one"));
      }
      said = said.value_or(digest);
    }
    if (said && *said != digest) {
      const bool last = version == index_.version;
      return FaultOf(last ? version : version + 1, last ? kSiteSeal : kSiteHeaders,
                     absl::StrCat("the derived state of version ", version, " has digest ",
                                  ToHex(digest), ", and here is ", ToHex(*said)));
    }
    result_.state_digest = digest;
    if (!said) {
      result_.last_unsaid = true;
    } else if (version >= first_) {
      if (result_.states == 0) result_.first = version;
      result_.last = version;
      ++result_.states;
    }
    return absl::OkStatus();
  }

  absl::Status Step(StateMemory& memory, const std::vector<uint64_t>& offsets) {
    const Fragments fragments(genesis_.spec(), genesis_.manifest());
    const uint64_t base = *index_.state_version;
    PayloadReader payloads(files_, site_, order_.scratch, *index_.Find(kSitePayloads), offsets);
    RETURN_IF_ERROR(CheckState(memory));
    while (memory.version() < last_) {
      const uint64_t version = memory.version() + 1;
      ASSIGN_OR_RETURN(const v1::EntryHeader header, ReadHeader(version));
      const absl::StatusOr<EntryStep> step = EntryStep::Make(fragments, header);
      if (!step.ok()) return FaultOf(version, kSiteHeaders, step.status().message());
      const size_t i = version - base - 1;
      const uint64_t length = offsets[i + 1] - offsets[i];
      const uint64_t most = MaxPayloadBytes(step->grid(), step->codec());
      if (length > most) {
        return FaultOf(version, kSitePayloadOffsets,
                       absl::StrCat("it says that the payload has ", length, " bytes; at most ",
                                    most, " are possible"));
      }
      absl::StatusOr<SharedBytes> payload = payloads.Read(i);
      if (!payload.ok()) {
        return Annotate(NotMissing(kSitePayloads, payload.status()),
                        absl::StrCat("entry ", version));
      }
      if (ToBytes(TreeDigest(payload->span())) != header.payload_digest()) {
        return FaultOf(version, kSitePayloads, "the payload's digest differs from the header's");
      }
      const absl::Status decodes = CheckPayload(step->grid(), step->codec(), *payload);
      if (!decodes.ok()) return FaultOf(version, kSitePayloads, decodes.message());
      memory.Step(*step, *payload, {});
      ++result_.payloads;
      RETURN_IF_ERROR(CheckState(memory));
      Tell(kCheckingStates, version - base, last_ - base);
    }
    return Finish(payloads);
  }

  absl::Status Finish(PayloadReader& payloads) {
    result_.bytes += payloads.fetched();
    if (last_ < index_.version) return absl::OkStatus();
    ++result_.files;
    RETURN_IF_ERROR(RequireHash(kSitePayloads, payloads.Sha256()));
    if (!index_.state_digest || index_.state_digest == result_.state_digest) {
      return absl::OkStatus();
    }
    return Fault(kSiteIndex, absl::StrCat("its state_digest is not that of the derived state, ",
                                          ToHex(*result_.state_digest)));
  }

  Files& files_;
  Site& site_;
  const CheckOrder& order_;
  SiteIndex index_;
  v1::Genesis genesis_;
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  std::vector<uint64_t> header_offsets_;
  std::unique_ptr<ReadableFile> headers_;
  std::vector<Digest> digests_;  // of the headers
  std::optional<Digest> sealed_state_;
  std::string page_;
  std::string story_;
  std::optional<RunStory> counted_;  // what the headers say
  CheckedSite result_;
};

}  // namespace

absl::StatusOr<CheckedSite> CheckSite(Files& files, Site& site, const CheckOrder& order) {
  return SiteCheck(files, site, order).Run();
}

}  // namespace atolld
