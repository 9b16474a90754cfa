#include "worker/program/workload.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "worker/data/arrays.h"
#include "worker/data/training_data.h"
#include "worker/torchscript/array_corpus.h"
#include "worker/torchscript/torchscript_trainer.h"
#include "worker/training/token_corpus.h"

namespace atolld {
namespace {

// Private text and tokens: each party's, and the common set.
class OwnTokens {
 public:
  explicit OwnTokens(const v1::RunSpec& spec) : spec_(spec) {}

  absl::StatusOr<std::shared_ptr<const TokenCorpus>> OpenParty(const std::string& places) {
    TrainingData::Own own;
    own.tokenizer = tokenizer_;
    own.validation_fraction = spec_.data().validation_fraction();
    ASSIGN_OR_RETURN(std::shared_ptr<const TrainingData> data,
                     TrainingData::OpenOwn(spec_.data(), places, spec_.model().vocabulary(), own));
    const bool first = !std::exchange(opened_, true);
    if (first) {
      tokenizer_ = data->shared_tokenizer();
      notes_ = data->notes();
    } else if (DigestOf(data->tokenizer()) != DigestOf(tokenizer_.get())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data: ", places, " is of another tokenizer than the first party's data here"));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const TokenCorpus> corpus, TokenCorpus::Make(spec_, data));
    if (first) notes_.insert(notes_.end(), corpus->notes().begin(), corpus->notes().end());
    return corpus;
  }

  // After the first party's.
  absl::StatusOr<std::shared_ptr<const Corpus>> OpenCommon(const std::string& path) const {
    v1::DataSpec one = spec_.data();
    one.clear_weights();
    TrainingData::Own own;
    own.tokenizer = tokenizer_;
    ASSIGN_OR_RETURN(std::shared_ptr<const TrainingData> data,
                     TrainingData::OpenOwn(one, path, spec_.model().vocabulary(), own));
    ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> corpus,
                     TokenCorpus::Make(spec_, data, TokenCorpus::Use::kCommon));
    return corpus;
  }

  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  static std::string DigestOf(const Tokenizer* tokenizer) {
    return tokenizer == nullptr ? "" : tokenizer->digest();
  }

  const v1::RunSpec spec_;
  bool opened_ = false;
  std::shared_ptr<const Tokenizer> tokenizer_;  // of the first party, which all others have
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

absl::StatusOr<Workload> OpenOwnTokens(const v1::Configure& configure,
                                       const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  const auto own = std::make_shared<OwnTokens>(spec);
  Workload load;
  std::shared_ptr<const TokenCorpus> first;
  if (configure.parties() > 0) {
    ASSIGN_OR_RETURN(
        load.parties,
        PartyData::Make(
            configure,
            [own](const std::string& places) -> absl::StatusOr<std::shared_ptr<const Corpus>> {
              return own->OpenParty(places);
            }));
    ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> one, load.parties->Open(1));
    first = std::static_pointer_cast<const TokenCorpus>(one);
  } else {
    ASSIGN_OR_RETURN(first, own->OpenParty(configure.data_path()));
  }
  ASSIGN_OR_RETURN(load.trainer, Trainer::Make(spec, first, devices));
  load.device = absl::StrJoin(devices, ",");
  if (!configure.validation_path().empty()) {
    ASSIGN_OR_RETURN(load.common, own->OpenCommon(configure.validation_path()));
  }
  load.tokenizer = own->tokenizer();
  load.notes = own->notes();
  CountOwn(&load);
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
  Workload load;
  std::shared_ptr<const ArrayCorpus> first;
  if (configure.parties() > 0) {
    ASSIGN_OR_RETURN(
        load.parties,
        PartyData::Make(
            configure,
            [spec](const std::string& places) -> absl::StatusOr<std::shared_ptr<const Corpus>> {
              return OpenRows(spec, places, ArrayCorpus::Use::kRun);
            }));
    ASSIGN_OR_RETURN(const std::shared_ptr<const Corpus> one, load.parties->Open(1));
    first = std::static_pointer_cast<const ArrayCorpus>(one);
  } else {
    ASSIGN_OR_RETURN(first, OpenRows(spec, configure.data_path(), ArrayCorpus::Use::kRun));
  }
  ASSIGN_OR_RETURN(load.trainer, MakeTorchScriptTrainer(spec, std::move(first)));
  load.device = "cpu";
  if (!configure.validation_path().empty()) {
    ASSIGN_OR_RETURN(load.common,
                     OpenRows(spec, configure.validation_path(), ArrayCorpus::Use::kCommon));
  }
  CountOwn(&load);
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

}  // namespace atolld
