#include "worker/program/workload.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/status_macros.h"
#include "worker/data/arrays.h"
#include "worker/data/training_data.h"
#include "worker/torchscript/torchscript_trainer.h"

namespace atolld {
namespace {

absl::StatusOr<Workload> OpenTokens(const v1::Configure& configure,
                                    const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  ASSIGN_OR_RETURN(
      std::shared_ptr<const TrainingData> data,
      TrainingData::Open(spec.data(), configure.data_path(), spec.model().vocabulary()));
  Workload load;
  ASSIGN_OR_RETURN(load.trainer, Trainer::Make(spec, *data, devices));
  load.device = absl::StrJoin(devices, ",");
  load.data_digest = data->digest();
  load.train_tokens = data->train_tokens();
  load.validation_tokens = data->validation_tokens();
  load.tokenizer = data->tokenizer();
  load.data = std::move(data);
  return load;
}

absl::StatusOr<Workload> OpenTorchScript(const v1::Configure& configure,
                                         const std::vector<std::string>& devices) {
  const v1::RunSpec& spec = configure.spec();
  // What a script draws comes from libtorch's one generator, in the order of the threads.
  if (devices.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a model of kind 'torchscript' trains on one device, and [worker] device "
                     "names ",
                     devices.size(), " (", absl::StrJoin(devices, ","), "); name one"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Arrays> arrays,
                   Arrays::Open(configure.data_path(), spec.data().validation_fraction()));
  const std::string& wanted = spec.data().digest();
  if (!wanted.empty() && wanted != arrays->digest()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data: ", configure.data_path(), " has SHA-256 ", absl::BytesToHexString(arrays->digest()),
        "; the run trains on ", absl::BytesToHexString(wanted)));
  }
  Workload load;
  ASSIGN_OR_RETURN(load.trainer, MakeTorchScriptTrainer(spec, *arrays));
  load.device = "cpu";
  load.data_digest = arrays->digest();
  load.train_tokens = arrays->train_rows();
  load.validation_tokens = arrays->validation_rows();
  load.data = std::move(arrays);
  return load;
}

}  // namespace

absl::StatusOr<Workload> OpenWorkload(const v1::Configure& configure,
                                      const std::vector<std::string>& devices) {
  if (configure.spec().model().kind() == "torchscript") return OpenTorchScript(configure, devices);
  return OpenTokens(configure, devices);
}

}  // namespace atolld
