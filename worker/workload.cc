#include "worker/workload.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "worker/corpus.h"
#include "worker/status_macros.h"
#include "worker/torchscript/arrays.h"
#include "worker/torchscript/torchscript_trainer.h"

namespace atolld {
namespace {

absl::Status CheckDigest(const v1::Configure& configure, const std::string& digest) {
  const std::string& wanted = configure.spec().data().digest();
  if (wanted.empty() || wanted == digest) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data: ", configure.data_path(), " has SHA-256 ", absl::BytesToHexString(digest),
                   "; the run trains on ", absl::BytesToHexString(wanted)));
}

absl::StatusOr<Workload> OpenText(const v1::Configure& configure) {
  const v1::RunSpec& spec = configure.spec();
  ASSIGN_OR_RETURN(std::shared_ptr<const Corpus> corpus,
                   Corpus::Open(configure.data_path(), spec.data().validation_fraction()));
  RETURN_IF_ERROR(CheckDigest(configure, corpus->digest()));
  Workload load;
  ASSIGN_OR_RETURN(load.trainer, Trainer::Make(spec, *corpus));
  load.data_digest = corpus->digest();
  load.train_tokens = corpus->train().size();
  load.validation_tokens = corpus->validation().size();
  load.data = std::move(corpus);
  return load;
}

absl::StatusOr<Workload> OpenTorchScript(const v1::Configure& configure) {
  const v1::RunSpec& spec = configure.spec();
  ASSIGN_OR_RETURN(std::shared_ptr<const Arrays> arrays,
                   Arrays::Open(configure.data_path(), spec.data().validation_fraction()));
  RETURN_IF_ERROR(CheckDigest(configure, arrays->digest()));
  Workload load;
  ASSIGN_OR_RETURN(load.trainer, MakeTorchScriptTrainer(spec, *arrays));
  load.data_digest = arrays->digest();
  load.train_tokens = arrays->train_rows();
  load.validation_tokens = arrays->validation_rows();
  load.data = std::move(arrays);
  return load;
}

}  // namespace

absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure) {
  const std::string& kind = configure.spec().data().kind();
  if (kind == "text") return OpenText(configure);
  if (kind == "arrays") return OpenTorchScript(configure);
  return absl::InvalidArgumentError(
      absl::StrCat("data.kind \"", kind, "\" is not known; known: text, arrays"));
}

}  // namespace atolld
