#include "daemon/config/federation_rules.h"

#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "daemon/config/data_config.h"
#include "membership/history/run_files.h"
#include "optimizer/aggregation_rule.h"

namespace atolld {
namespace {

// A peer that names none, or has a copy of the run's, gets it from the others.
FederationFault FaultOfValidation(const Config& c, ConfigUse use, const std::string& folder) {
  const std::string& path = c.data.validation;
  if (path.empty() || (use != ConfigUse::kLocal && use != ConfigUse::kPeer)) return {};
  std::error_code error;
  if (std::filesystem::is_regular_file(std::filesystem::path(folder) / path, error)) return {};
  const std::filesystem::path kept =
      std::filesystem::path(folder) / c.peer.dir / kRunFilesFolder / kValidationRole;
  if (use == ConfigUse::kPeer && std::filesystem::is_directory(kept, error)) return {};
  return {{{"data", "validation"}},
          absl::StrCat("data.validation '", path, "' is not an existing file")};
}

FederationFault FaultOfPrivateData(const Config& c) {
  if (!c.data.is_private) {
    if (!c.data.validation.empty()) {
      return {{{"data", "validation"}, {"data", "private"}},
              "[data] validation is for private = true; with common data the end of the text is "
              "held out, by validation_fraction"};
    }
    if (c.inner.epochs != 0) {
      return {
          {{"inner", "epochs"}, {"data", "private"}},
          absl::StrCat("[inner] epochs must be 0, not ", c.inner.epochs,
                       ", without [data] private = true: common data is leased by steps, and no "
                       "peer goes through it alone")};
    }
    return {};
  }
  if (c.data.tokenizer == kCharTokenizer) {
    return {{{"data", "tokenizer"}, {"data", "private"}},
            "[data] tokenizer must not be 'chars' with private data: each peer would have the "
            "alphabet of its own text; take 'bytes', or a file"};
  }
  if (!c.data.sources.empty()) {
    return {{{"data", "sources"}, {"data", "private"}},
            "[data] sources must be empty with private data, since nobody knows what it is made "
            "of; name one file or folder as path"};
  }
  if (c.inner.epochs != 0 && c.inner.pace != "fixed") {
    return {
        {{"inner", "pace"}, {"inner", "epochs"}},
        absl::StrCat("[inner] pace must be 'fixed' with epochs, which say how many steps a peer "
                     "does, not '",
                     c.inner.pace, "'")};
  }
  return {};
}

// A rule that withstands lying peers needs a number of updates, whichever peers are drawn.
FederationFault FaultOfDraws(const Config& c) {
  const FederationConfig& f = c.federation;
  AggregationSettings settings;
  settings.rule = c.exchange.aggregation;
  settings.faulty = c.exchange.faulty;
  const absl::StatusOr<AggregationRule> rule = AggregationRule::Make(settings);
  if (!rule.ok() || c.exchange.aggregation == "mean") return {};
  if (f.drop > 0) {
    return {{{"federation", "drop"}, {"exchange", "aggregation"}},
            absl::StrCat("[federation] drop must be 0 with aggregation '", c.exchange.aggregation,
                         "', which needs ", rule->LeastContributors(),
                         " updates in every round, not ", f.drop)};
  }
  const uint32_t quorum = c.run.quorum == 0 ? c.run.peers / 2 + 1 : c.run.quorum;
  const double drawn = std::ceil(f.participation * quorum - 1e-6);
  if (drawn >= static_cast<double>(rule->LeastContributors())) return {};
  return {{{"federation", "participation"}, {"exchange", "aggregation"}},
          absl::StrCat("[federation] participation ", f.participation, " of a quorum of ", quorum,
                       " leaves ", drawn, " updates, and aggregation '", c.exchange.aggregation,
                       "' needs ", rule->LeastContributors())};
}

}  // namespace

FederationFault FaultOfFederation(const Config& config, ConfigUse use, const std::string& folder) {
  FederationFault fault = FaultOfValidation(config, use, folder);
  // The coordinator tells a peer the rest.
  if (!fault.what.empty() || use == ConfigUse::kPeer || use == ConfigUse::kAny) return fault;
  fault = FaultOfPrivateData(config);
  return fault.what.empty() ? FaultOfDraws(config) : fault;
}

}  // namespace atolld
