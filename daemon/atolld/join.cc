#include "daemon/atolld/join.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compression/base/process_limits.h"
#include "compression/base/status_macros.h"
#include "daemon/config/config.h"
#include "daemon/config/config_text.h"
#include "daemon/fitness/preflight.h"
#include "daemon/fitness/run_costs.h"
#include "daemon/identity/credentials.h"
#include "daemon/transport/coordinator_client.h"
#include "daemon/transport/server_probe.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

constexpr size_t kLargestKey = 16384;

// A joining machine wants to train: costs are reported as far as they can be measured in little
// time. `atoll check` takes longer.
constexpr absl::Duration kTurnPatience = absl::Seconds(1);
constexpr int kStepSeconds = 1;

// Returns the existing key, or a fresh one that is durable when this returns.
absl::StatusOr<PrivateKey> KeyIn(Files& files, const std::string& folder) {
  const std::string path = KeyFile(folder);
  if (files.Exists(path)) {
    ASSIGN_OR_RETURN(const bool hidden, files.IsPrivate(path));
    if (!hidden) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": others may read this key; remove it and join with a fresh token"));
    }
    ASSIGN_OR_RETURN(const std::string pem, ReadFile(files, path, kLargestKey));
    absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(pem);
    return key.ok() ? key : Annotate(key.status(), path);
  }
  RETURN_IF_ERROR(files.MakeDirectories(folder));
  ASSIGN_OR_RETURN(PrivateKey key, PrivateKey::Generate());
  ASSIGN_OR_RETURN(const std::string pem, key.ToPem());
  RETURN_IF_ERROR(WriteSecretDurably(files, path, BytesOf(pem)));
  return key;
}

absl::StatusOr<v1::EnrolResponse> EnrolWith(Files& files, const v1::JoinToken& token,
                                            const PrivateKey& key, const std::string& folder,
                                            const Waiting& waiting) {
  RETURN_IF_ERROR(
      SaveCredentials(files, folder, {token.authority(), token.certificate(), token.key()}));
  ASSIGN_OR_RETURN(const std::string request, key.SigningRequest());
  absl::StatusOr<v1::EnrolResponse> answer =
      Enrol(CoordinatorAccess{AddressesIn(token), folder}, request, waiting);
  // The token's key has done what it was for, or will come from the token again.
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return answer;
}

// The path must be valid from anywhere, because the config that names it is in another folder.
std::string Absolute(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

void NameFiles(const Brought& brought, const v1::RunSpec& spec, Config* config) {
  const std::vector<std::string> sources = SourcesIn(spec, brought.data);
  if (sources.size() == 1) config->data.path = Absolute(sources[0]);
  for (size_t i = 0; i < sources.size() && sources.size() > 1; ++i) {
    absl::StrAppend(&config->data.sources, i == 0 ? "" : ",", Absolute(sources[i]), ":",
                    spec.data().weights(static_cast<int>(i)));
  }
  if (!brought.tokenizer.empty() && spec.data().tokenizer() == "file") {
    config->data.tokenizer = Absolute(brought.tokenizer);
  }
  if (spec.model().kind() == kHuggingFaceKind) {
    config->model.path = Absolute(brought.base);
  } else if (!spec.model().base_digest().empty()) {
    config->model.base = Absolute(brought.base);
  }
  if (spec.model().kind() == kTorchScriptKind) config->model.file = Absolute(brought.program);
  if (spec.model().kind() == kExternalKind) config->worker.program = Absolute(brought.program);
}

// Returns the text of the config; fails with INVALID_ARGUMENT if no peer could start with it.
absl::StatusOr<std::string> ConfigFor(const JoinOptions& options, const v1::JoinToken& token,
                                      const v1::RunDescription& run, const std::string& id,
                                      const std::string& dir) {
  Config config;
  config.run.id = "";
  config.model.kind = run.spec().model().kind();
  if (config.model.kind == kStubKind) config.model.parameters = 1;  // the coordinator tells it
  config.coordinator.address = token.address();
  config.coordinator.others = absl::StrJoin(token.others(), ",");
  config.peer.id = id;
  config.peer.role = run.role();
  config.peer.dir = ".";  // the config lies in it, and moves with it
  config.peer.advertise = options.advertise.empty() ? kDialsOutOnly : options.advertise;
  if (run.role() != kAggregatorRoleName) NameFiles(options.brought, run.spec(), &config);
  if (!options.listen.empty()) {
    config.peer.listen = options.listen;
  } else if (!options.advertise.empty()) {
    config.peer.listen = ListenAddressFor(options.advertise);
  }
  const std::string text = FormatConfig(config);
  RETURN_IF_ERROR(ParseConfig(text, "the joining peer's config", dir, ConfigUse::kPeer).status());
  return text;
}

// Returns all findings that would make joining fail, as one error.
absl::Status FatalOf(const std::vector<Finding>& findings) {
  std::vector<std::string> fatal;
  for (const Finding& finding : findings) {
    if (finding.weight == Finding::Weight::kFatal) fatal.push_back(finding.line);
  }
  return fatal.empty() ? absl::OkStatus()
                       : absl::FailedPreconditionError(absl::StrJoin(fatal, "; "));
}

// Reports what it will cost this machine; no cost is a reason not to join.
void SayCosts(Files& files, const JoinOptions& options, const v1::JoinToken& token,
              const v1::RunDescription& run, const std::string& dir) {
  if (run.has_seal()) return;
  CostQuestion question;
  question.spec = run.spec();
  question.peers = static_cast<uint32_t>(run.holders_size()) + 1;
  question.dialled = !options.advertise.empty();
  if (run.role() != kAggregatorRoleName) question.worker = options.worker;
  question.step_seconds = kStepSeconds;
  question.measure_line = [&] {
    return MeasureLineWith(files, token, absl::StrCat(dir, "/token"), kTurnPatience);
  };
  for (const Finding& finding : LookAtCosts(question)) options.say(finding.line);
}

// Finds out what the run is and needs, and whether this machine has it.
absl::StatusOr<v1::RunDescription> LookAtRun(Files& files, const JoinOptions& options,
                                             const v1::JoinToken& token, const std::string& dir) {
  ASSIGN_OR_RETURN(v1::RunDescription run, AskAboutRun(files, token, absl::StrCat(dir, "/token"),
                                                       Waiting{options.patience, options.say}));
  const std::vector<Finding> findings =
      CheckNeeds(files, run, options.brought, ReadProcessLimits().memory);
  for (const Finding& finding : findings) options.say(finding.line);
  const absl::Status fits = FatalOf(findings);
  if (fits.ok()) {
    SayCosts(files, options, token, run, dir);
    return run;
  }
  // The run itself is not for this machine's user to mend.
  if (findings[0].weight == Finding::Weight::kFatal) return fits;
  return absl::InvalidArgumentError(
      absl::StrCat(fits.message(), ". The token is not spent: join again with it"));
}

absl::Status LookAtMachine(const JoinOptions& options, const v1::JoinToken& token,
                           const CertificateInfo& bootstrap, const std::string& dir) {
  PreflightOptions looked;
  looked.dir = dir;
  looked.coordinator = token.address();
  looked.credentials = Credentials{token.authority(), token.certificate(), token.key()};
  looked.listen = options.listen;
  looked.advertise = options.advertise;
  looked.now = options.clock();
  // With several coordinators, takes one that answers.
  for (const std::string& other : token.others()) {
    if (ProbeServer({looked.coordinator, Role::kCoordinator, "", looked.credentials},
                    looked.patience)
            .ok()) {
      break;
    }
    looked.coordinator = other;
  }
  looked.worker = options.worker;
  looked.no_earlier_than = bootstrap.not_before + kLateClocks;
  looked.on_finding = [&options](const Finding& finding) { options.say(finding.line); };
  return FatalOf(Preflight(looked));
}

}  // namespace

absl::StatusOr<std::string> Join(Files& files, const JoinOptions& options) {
  const absl::Time now = options.clock();
  ASSIGN_OR_RETURN(const v1::JoinToken token, ParseJoinToken(options.token));
  absl::StatusOr<CertificateInfo> bootstrap = ParseCertificate(token.certificate());
  if (!bootstrap.ok()) return Annotate(bootstrap.status(), "the token");
  const std::string& id = bootstrap->identity.id;
  const std::string dir =
      std::filesystem::absolute(options.dir.empty() ? absl::StrCat("atoll-", id) : options.dir)
          .lexically_normal()
          .string();
  const std::string config_path = absl::StrCat(dir, "/config.toml");
  const std::string identity = absl::StrCat(dir, "/", kIdentityFolder);
  const absl::StatusOr<CertificateInfo> had = LoadCredentials(files, identity, now);
  if (had.ok() && files.Exists(config_path)) {
    if (had->identity.id == id) {
      const Brought& named = options.brought;
      if (!absl::StrCat(named.data, named.tokenizer, named.base, named.program).empty()) {
        options.say(absl::StrCat(dir, " has joined already, and ", config_path,
                                 " is there: the options are not read; change that file instead"));
      }
      return config_path;
    }
    return absl::InvalidArgumentError(absl::StrCat(dir, " is that of ", Describe(had->identity),
                                                   ", and the token is for peer ", id,
                                                   "; give another --dir"));
  }
  RETURN_IF_ERROR(CheckValidAt(*bootstrap, now));
  if (!options.advertise.empty() && options.advertise.rfind(':') == std::string::npos) {
    return absl::InvalidArgumentError("--advertise must have the form HOST:PORT");
  }
  RETURN_IF_ERROR(LookAtMachine(options, token, *bootstrap, dir));
  const bool fresh = !files.Exists(dir);
  const absl::StatusOr<v1::RunDescription> run = LookAtRun(files, options, token, dir);
  const absl::StatusOr<std::string> config =
      run.ok() ? ConfigFor(options, token, *run, id, dir) : run.status();
  if (!config.ok()) {
    std::error_code ignored;
    if (fresh) std::filesystem::remove(dir, ignored);  // it is empty
    return config.status();
  }
  ASSIGN_OR_RETURN(const PrivateKey key, KeyIn(files, identity));
  ASSIGN_OR_RETURN(const v1::EnrolResponse answer,
                   EnrolWith(files, token, key, absl::StrCat(dir, "/token"),
                             Waiting{options.patience, options.say}));
  Credentials credentials{token.authority(), answer.certificate(), ""};
  ASSIGN_OR_RETURN(credentials.key, key.ToPem());
  const absl::StatusOr<CertificateInfo> made = ParseCertificate(credentials.certificate);
  if (made.ok()) {
    const Finding clocks = CompareClocks(options.clock(), made->not_before, kLateClocks);
    if (clocks.weight != Finding::Weight::kGood) options.say(clocks.line + "; set it");
  }
  const absl::StatusOr<CertificateInfo> sound = CheckCredentials(credentials, options.clock());
  if (!sound.ok()) return Annotate(sound.status(), "what the coordinator has signed");
  RETURN_IF_ERROR(WriteFileDurably(files, AuthorityFile(identity), BytesOf(credentials.authority)));
  RETURN_IF_ERROR(WriteFileDurably(files, config_path, BytesOf(*config)));
  // Last: with it everything is there.
  RETURN_IF_ERROR(SaveCertificate(files, identity, credentials.certificate));
  return config_path;
}

}  // namespace atolld
