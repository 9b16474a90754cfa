#include "worker/program/workload.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compression/base/status_macros.h"
#include "compression/base/words.h"
#include "worker/data/arrays.h"
#include "worker/data/recurrence.h"
#include "worker/data/training_data.h"
#include "worker/torchscript/torchscript_trainer.h"
#include "worker/training/token_corpus.h"

namespace atolld {
namespace {

// Private text and tokens: each party's, and the common set. The common set is read right after the
// first party's data, so that each party's text can be searched for parts of it.
class OwnTokens {
 public:
  OwnTokens(const v1::RunSpec& spec, const std::string& common_path)
      : spec_(spec), common_path_(common_path) {}

  absl::StatusOr<std::shared_ptr<const Corpus>> OpenParty(const std::string& places) {
    TrainingData::Own own;
    own.tokenizer = tokenizer_;
    own.validation_fraction = spec_.data().validation_fraction();
    ASSIGN_OR_RETURN(std::shared_ptr<const TrainingData> data,
                     TrainingData::OpenOwn(spec_.data(), places, spec_.model().vocabulary(), own));
    const bool first = !std::exchange(opened_, true);
    if (first) {
      tokenizer_ = data->shared_tokenizer();
      notes_ = data->notes();
      ReadCommon();
    } else if (DigestOf(data->tokenizer()) != DigestOf(tokenizer_.get())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: ", places, " is of another tokenizer than the first party's data here"));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const TokenCorpus> corpus, TokenCorpus::Make(spec_, data));
    if (first) notes_.insert(notes_.end(), corpus->notes().begin(), corpus->notes().end());
    for (size_t i = 0; recurring_ != nullptr && i < data->sources(); ++i) {
      recurring_->LookIn(data->source(i).train(), data->source(i).train_marks());
    }
    return corpus;
  }

  // Returns the common set, or the error of reading it. Must be called after the first party's data
  // was opened.
  absl::StatusOr<std::shared_ptr<const Corpus>> OpenCommon() const { return common_; }

  // Ends the search, because from now on parties are opened again. Must be called once, when all
  // parties have been opened.
  void EndSearch() {
    if (recurring_ == nullptr) return;
    const std::string note =
        recurring_->Note("the common validation set", "this peer's own training text");
    if (!note.empty()) notes_.push_back(note);
    recurring_ = nullptr;
  }

  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  static std::string DigestOf(const Tokenizer* tokenizer) {
    return tokenizer == nullptr ? "" : tokenizer->digest();
  }

  absl::StatusOr<std::shared_ptr<const TokenCorpus>> OpenCommonData() const {
    v1::DataSpec one = spec_.data();
    one.clear_weights();
    TrainingData::Own own;
    own.tokenizer = tokenizer_;
    ASSIGN_OR_RETURN(std::shared_ptr<const TrainingData> data,
                     TrainingData::OpenOwn(one, common_path_, spec_.model().vocabulary(), own));
    return TokenCorpus::Make(spec_, data, TokenCorpus::Use::kCommon);
  }

  void ReadCommon() {
    if (common_path_.empty()) return;
    const absl::StatusOr<std::shared_ptr<const TokenCorpus>> common = OpenCommonData();
    common_ = common;
    if (!common.ok()) return;
    recurring_ = std::make_unique<RecurrenceSearch>(RecurrenceSearch::LengthFor(tokenizer_.get()));
    for (size_t i = 0; i < (*common)->data().sources(); ++i) {
      recurring_->Add((*common)->HeldOut(i), (*common)->HeldOutMarks(i));
    }
  }

  const v1::RunSpec spec_;
  const std::string common_path_;  // Empty if there is no common set.
  bool opened_ = false;
  std::shared_ptr<const Tokenizer> tokenizer_;  // of the first party, which all others have
  absl::StatusOr<std::shared_ptr<const Corpus>> common_ = std::shared_ptr<const Corpus>();
  std::unique_ptr<RecurrenceSearch> recurring_;  // Null unless there is a common set to search for.
  std::vector<std::string> notes_;
};

// Sets the numbers reported for private data, once the trainer and its parties exist.
void CountOwn(Workload* load) {
  if (load->common != nullptr) load->validation_tokens = load->common->validation_tokens();
  if (const PartyData* parties = load->parties.get()) {
    load->samples = parties->samples();
    load->train_tokens = parties->train_tokens();
    load->own_validation_tokens = parties->validation_tokens();
    return;
  }
  const Corpus& corpus = load->trainer->corpus();
  load->samples = corpus.samples();
  load->train_tokens = corpus.train_tokens();
  load->own_validation_tokens = corpus.validation_tokens();
}

// Opens private data: that of the parties, or of this peer alone, and the common set if it has one.
absl::StatusOr<Workload> OpenPrivate(
    const v1::Configure& configure, const PartyData::OpenOne& open,
    const PartyData::OpenOne& open_common,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Trainer>>(std::shared_ptr<const Corpus>)>
        make_trainer) {
  Workload load;
  std::shared_ptr<const Corpus> first;
  if (configure.parties() > 0) {
    ASSIGN_OR_RETURN(load.parties, PartyData::Make(configure, open));
    ASSIGN_OR_RETURN(first, load.parties->Open(1));
  } else {
    ASSIGN_OR_RETURN(first, open(configure.data_path()));
  }
  ASSIGN_OR_RETURN(load.trainer, make_trainer(std::move(first)));
  if (!configure.validation_path().empty()) {
    ASSIGN_OR_RETURN(load.common, open_common(configure.validation_path()));
  }
  CountOwn(&load);
  return load;
}

absl::StatusOr<Workload> OpenOwnTokens(const v1::Configure& configure,
                                       const std::vector<std::string>& devices) {
  const auto own = std::make_shared<OwnTokens>(configure.spec(), configure.validation_path());
  ASSIGN_OR_RETURN(
      Workload load,
      OpenPrivate(
          configure, [own](const std::string& places) { return own->OpenParty(places); },
          [own](const std::string&) { return own->OpenCommon(); },
          [&](std::shared_ptr<const Corpus> first) {
            return Trainer::Make(configure.spec(),
                                 std::static_pointer_cast<const TokenCorpus>(std::move(first)),
                                 devices);
          }));
  load.device = absl::StrJoin(devices, ",");
  own->EndSearch();
  load.tokenizer = own->tokenizer();
  load.notes = own->notes();
  return load;
}

absl::StatusOr<Workload> OpenTokens(const v1::Configure& configure,
                                    const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  ASSIGN_OR_RETURN(
      std::shared_ptr<const TrainingData> data,
      TrainingData::Open(spec.data(), configure.data_path(), spec.model().vocabulary()));
  Workload load;
  ASSIGN_OR_RETURN(std::shared_ptr<const TokenCorpus> corpus, TokenCorpus::Make(spec, data));
  load.notes = data->notes();
  load.notes.insert(load.notes.end(), corpus->notes().begin(), corpus->notes().end());
  ASSIGN_OR_RETURN(load.trainer, Trainer::Make(spec, std::move(corpus), devices));
  load.device = absl::StrJoin(devices, ",");
  load.data_digest = data->digest();
  load.train_tokens = data->train_tokens();
  load.validation_tokens = data->validation_tokens();
  load.tokenizer = data->shared_tokenizer();
  return load;
}

// A script draws from libtorch's one generator, in the order of the threads, so it needs one
// device.
absl::Status CheckOneDevice(const std::vector<std::string>& devices) {
  if (devices.size() <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a model of kind 'torchscript' trains on one device, and [worker] device "
                   "names ",
                   devices.size(), " (", absl::StrJoin(devices, ","), "); name one"));
}

absl::StatusOr<std::shared_ptr<const ArrayCorpus>> OpenRows(const v1::RunSpec& spec,
                                                            const std::string& path,
                                                            ArrayCorpus::Use use) {
  const bool common = use == ArrayCorpus::Use::kCommon;
  ASSIGN_OR_RETURN(std::shared_ptr<const Arrays> arrays,
                   Arrays::Open(path, common ? 0 : spec.data().validation_fraction(),
                                /*named=*/!spec.data().private_()));
  ASSIGN_OR_RETURN(std::shared_ptr<const ArrayCorpus> corpus,
                   ArrayCorpus::Make(spec, std::move(arrays), use));
  return corpus;
}

absl::StatusOr<Workload> OpenOwnArrays(const v1::Configure& configure) {
  const v1::RunSpec& spec = configure.spec();
  const auto open = [spec](ArrayCorpus::Use use) -> PartyData::OpenOne {
    return [spec, use](const std::string& places) { return OpenRows(spec, places, use); };
  };
  ASSIGN_OR_RETURN(
      Workload load,
      OpenPrivate(configure, open(ArrayCorpus::Use::kRun), open(ArrayCorpus::Use::kCommon),
                  [&](std::shared_ptr<const Corpus> first) {
                    return MakeTorchScriptTrainer(
                        spec, std::static_pointer_cast<const ArrayCorpus>(std::move(first)));
                  }));
  load.device = "cpu";
  return load;
}

absl::StatusOr<Workload> OpenArrays(const v1::Configure& configure) {
  const v1::RunSpec& spec = configure.spec();
  ASSIGN_OR_RETURN(std::shared_ptr<const ArrayCorpus> corpus,
                   OpenRows(spec, configure.data_path(), ArrayCorpus::Use::kRun));
  const Arrays& arrays = corpus->arrays();
  const std::string& wanted = spec.data().digest();
  if (!wanted.empty() && wanted != arrays.digest()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data: ", configure.data_path(), " has SHA-256 ", absl::BytesToHexString(arrays.digest()),
        "; the run trains on ", absl::BytesToHexString(wanted)));
  }
  Workload load;
  load.device = "cpu";
  load.data_digest = arrays.digest();
  load.train_tokens = arrays.train_rows();
  load.validation_tokens = arrays.validation_rows();
  ASSIGN_OR_RETURN(load.trainer, MakeTorchScriptTrainer(spec, std::move(corpus)));
  return load;
}

}  // namespace

absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  if (!spec.data().private_() && (configure.parties() > 0 || spec.inner().epochs() > 0)) {
    return absl::InvalidArgumentError(
        "virtual parties and inner.epochs need private data: [data] private = true");
  }
  if (spec.model().kind() == "torchscript") {
    RETURN_IF_ERROR(CheckOneDevice(devices));
    return spec.data().private_() ? OpenOwnArrays(configure) : OpenArrays(configure);
  }
  return spec.data().private_() ? OpenOwnTokens(configure, devices)
                                : OpenTokens(configure, devices);
}

// -----------------------------------------------------------------------------------------------

namespace {

constexpr size_t kOpenAtOnce = 256;

}  // namespace

PartyData::PartyData(const v1::Configure& configure, OpenOne open)
    : parties_(configure.parties()),
      first_(std::max(1u, configure.first_party())),
      open_(std::move(open)) {}

absl::StatusOr<std::unique_ptr<PartyData>> PartyData::Make(const v1::Configure& configure,
                                                           OpenOne open) {
  std::unique_ptr<PartyData> data(new PartyData(configure, std::move(open)));
  RETURN_IF_ERROR(data->List(configure.data_path()));
  const uint64_t last = uint64_t{data->first_} + data->parties_ - 1;
  if (last > data->found()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", configure.data_path(), " holds ",
                     Counted(data->found(), "party", "parties"), "; this peer is to have ",
                     data->parties_, " from ", data->first_, " on, so there must be ", last));
  }
  for (uint32_t party = 1; party <= data->parties_; ++party) {
    ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> corpus, data->Open(party));
    data->samples_ += corpus->samples();
    data->train_tokens_ += corpus->train_tokens();
    data->validation_tokens_ += corpus->validation_tokens();
  }
  return data;
}

absl::Status PartyData::List(const std::string& data_path) {
  std::vector<std::string> folders;
  for (const absl::string_view line : absl::StrSplit(data_path, '\n')) {
    if (absl::StartsWith(line, "tokenizer ")) {
      absl::StrAppend(&tokenizer_, line, "\n");
    } else {
      folders.emplace_back(line);
    }
  }
  if (folders.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: the parties' data is one folder, and [data] names ", folders.size(), " sources"));
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folders[0], error)) {
    if (!absl::StartsWith(entry.path().filename().string(), ".")) {
      paths_.push_back(entry.path().string());
    }
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data: ", folders[0],
        " must be a folder with a file or a folder for each party: ", error.message()));
  }
  std::sort(paths_.begin(), paths_.end());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Corpus>> PartyData::Open(uint32_t party) {
  if (party < 1 || party > parties_) {
    return absl::InvalidArgumentError(
        absl::StrCat("party ", party, " is not here; this worker has 1 to ", parties_));
  }
  const auto found = opened_.find(party);
  if (found != opened_.end()) {
    found->second.used = ++turns_;
    return found->second.corpus;
  }
  absl::StatusOr<std::shared_ptr<const Corpus>> corpus =
      open_(absl::StrCat(tokenizer_, paths_[NumberOf(party) - 1]));
  RETURN_IF_ERROR(Annotate(corpus.status(), absl::StrCat("party ", NumberOf(party))));
  if (opened_.size() >= kOpenAtOnce) {
    opened_.erase(std::min_element(
        opened_.begin(), opened_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  opened_[party] = {*corpus, ++turns_};
  return corpus;
}

}  // namespace atolld
