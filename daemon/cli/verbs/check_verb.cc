// `atoll check`: whether this machine can take part in a run, before it does or when it does not.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "compression/base/status_macros.h"
#include "daemon/cli/preflight.h"
#include "daemon/cli/process.h"
#include "daemon/cli/verbs/verbs.h"
#include "daemon/cli/worker_tool.h"
#include "daemon/config/config.h"
#include "daemon/env/posix_files.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "membership/trust/tokens.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

struct CheckOptions {
  std::string token;
  std::string config;
  std::string dir = ".";
  std::string advertise;
  std::string listen;
  bool json = false;
};

// "identity: of peer lab-3, good until 2025-01-31 14:25:01 UTC"
Finding ValidityOf(absl::string_view subject, const CertificateInfo& certificate, absl::Time now) {
  const std::string whose = absl::StrCat(
      subject, ": of ", Describe(certificate.identity), ", good until ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", certificate.not_after, absl::UTCTimeZone()));
  const absl::Status valid = CheckValidAt(certificate, now);
  if (valid.ok()) return {Weight::kGood, whose};
  return {Weight::kFatal, absl::StrCat(subject, ": ", valid.message())};
}

// Of an enrolled peer; one that is not may join later.
Finding CheckIdentity(const std::string& dir, absl::Time now) {
  PosixFiles files;
  const absl::StatusOr<CertificateInfo> info =
      LoadCredentials(files, absl::StrCat(dir, "/", kIdentityFolder), now);
  if (info.ok()) return ValidityOf("identity", *info, now);
  const bool none = absl::IsNotFound(info.status());
  return {none ? Weight::kDoubtful : Weight::kFatal,
          absl::StrCat("identity: ", info.status().message(),
                       none ? "; `atolld join TOKEN` gets one" : "")};
}

absl::Status TakeToken(const CheckOptions& options, PreflightOptions* looked,
                       std::vector<Finding>* findings) {
  ASSIGN_OR_RETURN(const v1::JoinToken token, ParseJoinToken(options.token));
  const absl::StatusOr<CertificateInfo> bootstrap = ParseCertificate(token.certificate());
  if (!bootstrap.ok()) return Annotate(bootstrap.status(), "the token");
  looked->coordinator = token.address();
  looked->no_earlier_than = bootstrap->not_before + kLateClocks;
  findings->push_back(ValidityOf("token", *bootstrap, looked->now));
  return absl::OkStatus();
}

absl::Status TakeConfig(const CheckOptions& options, PreflightOptions* looked,
                        std::vector<Finding>* findings) {
  ASSIGN_OR_RETURN(const Config config, LoadConfig(options.config, ConfigUse::kPeer));
  looked->dir = config.peer.dir;
  looked->coordinator = config.coordinator.address;
  if (config.peer.advertise != kDialsOutOnly) looked->advertise = config.peer.advertise;
  looked->listen = config.peer.listen;
  const std::string& kind = config.model.kind;
  if (config.peer.role == kAggregatorRoleName || kind == kStubKind || kind == kExternalKind) {
    looked->worker.clear();
  } else if (!config.worker.program.empty()) {
    looked->worker = config.worker.program;
  }
  const std::optional<pid_t> running = RunningDaemon(looked->dir);
  looked->runs = running.has_value();
  findings->push_back({Weight::kGood, running ? absl::StrCat("daemon: runs as process ", *running)
                                              : std::string("daemon: does not run")});
  if (!config.network.plaintext) findings->push_back(CheckIdentity(looked->dir, looked->now));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Finding>> Look(const CheckOptions& options) {
  PreflightOptions looked;
  looked.dir = AbsoluteFolder(options.dir);
  looked.advertise = options.advertise;
  looked.listen = options.listen;
  looked.worker = absl::StrCat(ProgramFolder(), "/atoll-worker");
  looked.now = absl::Now();
  std::vector<Finding> findings;
  if (!options.config.empty()) {
    RETURN_IF_ERROR(TakeConfig(options, &looked, &findings));
  } else if (!options.token.empty()) {
    RETURN_IF_ERROR(TakeToken(options, &looked, &findings));
  }
  if (!looked.advertise.empty() && looked.advertise.rfind(':') == std::string::npos) {
    return absl::InvalidArgumentError("--advertise is of the form HOST:PORT");
  }
  for (Finding& finding : Preflight(looked)) findings.push_back(std::move(finding));
  return findings;
}

int Check(const CheckOptions& options) {
  const absl::StatusOr<std::vector<Finding>> findings = Look(options);
  if (!findings.ok()) return Report(findings.status(), kWrongCall);
  const bool fit = std::none_of(findings->begin(), findings->end(), [](const Finding& finding) {
    return finding.weight == Weight::kFatal;
  });
  nlohmann::ordered_json json = {{"fit", fit}, {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : *findings) {
    const size_t colon = finding.line.find(": ");
    json["findings"].push_back({{"subject", finding.line.substr(0, colon)},
                                {"weight", NameOf(finding.weight)},
                                {"text", finding.line.substr(colon + 2)}});
    if (!options.json) absl::PrintF("%-8s  %s\n", NameOf(finding.weight), finding.line);
  }
  if (options.json) absl::PrintF("%s\n", json.dump(2));
  return fit ? kDone : kFailed;
}

}  // namespace

void AddCheckVerb(CommandLine& command_line) {
  const auto options = std::make_shared<CheckOptions>();
  const Verb verb = command_line.AddVerb(
      "check",
      "Say whether this machine can take part in a run\n"
      "Disk, memory, GPUs, clock, addresses. A token tells where its coordinator is.",
      "atoll check --dir ~/atoll", [options] { return Check(*options); });
  const Option token =
      verb.Add("TOKEN", options->token, "Of the run to join; it is read, not used up");
  const Option config =
      verb.Add("--config", options->config, "The config of a peer that has joined").File();
  const Option dir = verb.Add("--dir", options->dir, "Where all of it would live").Folder();
  const Option advertise =
      verb.Add("--advertise", options->advertise,
               "HOST:PORT where others would reach this machine; without, it dials out");
  const Option listen =
      verb.Add("--listen", options->listen,
               "Where it would listen; without, all addresses at the port of --advertise");
  for (const Option other : {token, dir, advertise, listen}) config.Excludes(other);
  verb.Flag("--json", options->json, "Print as JSON");
}

}  // namespace atolld
