#include "daemon/config/store_rules.h"

#include "absl/strings/str_cat.h"
#include "daemon/env/network.h"

namespace atolld {
namespace {

// The shortest lease of an etcd with its default election time-out, and a lease that is too long to
// be useful.
constexpr absl::Duration kShortestLease = absl::Seconds(2);
constexpr absl::Duration kLongestLease = absl::Seconds(60);

std::string Named(const char* key) { return absl::StrCat("[coordinator] ", key); }

ConfigFault FaultOfEmbedded(const Config::Coordinator& c) {
  const std::pair<const char*, const std::string&> of_etcd[] = {
      {"etcd", c.etcd},
      {"etcd_authority", c.etcd_authority},
      {"etcd_certificate", c.etcd_certificate},
      {"etcd_key", c.etcd_key}};
  for (const auto& [key, value] : of_etcd) {
    if (value.empty()) continue;
    return {{{"coordinator", key}, {"coordinator", "store"}},
            absl::StrCat(Named(key), " needs [coordinator] store = 'etcd', not '", c.store, "'")};
  }
  return {};
}

ConfigFault FaultOfTls(const Config::Coordinator& c) {
  if (c.etcd_certificate.empty() != c.etcd_key.empty()) {
    const char* const has = c.etcd_key.empty() ? "etcd_certificate" : "etcd_key";
    const char* const lacks = c.etcd_key.empty() ? "etcd_key" : "etcd_certificate";
    return {{{"coordinator", has}},
            absl::StrCat(Named(has), " needs ", Named(lacks), " beside it")};
  }
  if (!c.etcd_authority.empty()) return {};
  if (!c.etcd_key.empty()) {
    return {{{"coordinator", "etcd_certificate"}},
            absl::StrCat(Named("etcd_certificate"), " needs ", Named("etcd_authority"),
                         ", by which etcd's own certificate is checked")};
  }
  for (const std::string& endpoint : SplitNames(c.etcd)) {
    if (IsLoopback(endpoint)) continue;
    return {{{"coordinator", "etcd"}, {"coordinator", "etcd_authority"}},
            absl::StrCat(
                Named("etcd"), " '", endpoint,
                "' is beyond this machine, and anyone on the way there could change the run: set ",
                Named("etcd_authority"), " to the certificate of etcd's authority")};
  }
  return {};
}

ConfigFault FaultOfEtcd(const Config& config, ConfigUse use) {
  const Config::Coordinator& c = config.coordinator;
  if (c.etcd.empty()) {
    return {
        {{"coordinator", "etcd"}, {"coordinator", "store"}},
        "[coordinator] store = 'etcd' needs [coordinator] etcd, where etcd's members are found, "
        "such as '127.0.0.1:2379'"};
  }
  if (config.run.id.empty() && use == ConfigUse::kCoordinator) {
    return {{{"run", "id"}, {"coordinator", "store"}},
            "[coordinator] store = 'etcd' needs [run] id: by it the run's coordinators find what "
            "they share"};
  }
  if (c.etcd_lease != absl::Floor(c.etcd_lease, absl::Seconds(1))) {
    return {{{"coordinator", "etcd_lease"}},
            "[coordinator] etcd_lease must be whole seconds, as etcd counts them"};
  }
  if (c.aggregator == "always") {
    return {{{"coordinator", "aggregator"}, {"coordinator", "store"}},
            "[coordinator] aggregator must not be 'always' with store = 'etcd': it would come and "
            "go with the leader; run an `atolld peer` with role 'aggregator' instead"};
  }
  return FaultOfTls(c);
}

}  // namespace

std::vector<ConfigField> StoreFields(Config& config) {
  Config::Coordinator& c = config.coordinator;
  return {
      {"others", Text{&c.others, TextForm::kAddresses, true}, Recorded::kNo,
       "where the run's other coordinators are found; tokens hand it out, and peers go from one to "
       "the next until they meet the one that leads",
       "Set it in every config, the peers' too, where the run has several coordinators."},
      {"store", Text{&c.store, TextForm::kOneOf, false, {"sqlite", kEtcdStoreName}}, Recorded::kNo,
       "where the run's state is kept: 'sqlite', a file in `dir`, or 'etcd'",
       "Take 'etcd' where the loss of the coordinator's machine must not stop the run: several "
       "coordinators share one etcd, and one leads. See coordinators.md."},
      {"etcd", Text{&c.etcd, TextForm::kAddresses, true}, Recorded::kNo,
       "where etcd's members are found; only with store 'etcd'",
       "Name all members: the next one is asked when one fails."},
      {"etcd_prefix", Text{&c.etcd_prefix, TextForm::kId}, Recorded::kNo,
       "what the keys in etcd begin with, before the run's id; only with store 'etcd'",
       "Set it where several clusters with runs of the same name share one etcd."},
      {"etcd_lease", TimeSpan{&c.etcd_lease, kShortestLease, kLongestLease}, Recorded::kNo,
       "how long after its last sign of life a coordinator still counts as the leader, whole "
       "seconds; only with store 'etcd'",
       "Raise it where coordinators or etcd stall for seconds, as on overloaded machines."},
      {"etcd_authority", Text{&c.etcd_authority, TextForm::kPath, true}, Recorded::kNo,
       "the certificate of the authority of etcd's members, PEM; empty: no TLS, on this machine "
       "alone; only with store 'etcd'",
       "Set it wherever etcd is on other machines."},
      {"etcd_certificate", Text{&c.etcd_certificate, TextForm::kPath, true}, Recorded::kNo,
       "this coordinator's certificate for etcd, PEM; empty: none is shown; only with store 'etcd'",
       "Set it where etcd asks for one (--client-cert-auth), as it should."},
      {"etcd_key", Text{&c.etcd_key, TextForm::kPath, true}, Recorded::kNo,
       "the key of that certificate, PEM; only with store 'etcd'", "Set it with the certificate."},
  };
}

ConfigFault FaultOfStore(const Config& config, ConfigUse use) {
  const Config::Coordinator& c = config.coordinator;
  for (const std::string& address : SplitNames(c.others)) {
    if (IsWildcard(address)) {
      return {{{"coordinator", "others"}},
              absl::StrCat(Named("others"), " '", address,
                           "' is every address of a machine, and nobody can dial it")};
    }
    if (config.network.plaintext && !IsLoopback(address)) {
      return {{{"coordinator", "others"}},
              absl::StrCat(Named("others"), " '", address,
                           "' is beyond this machine, where [network] plaintext = true would let "
                           "anybody in; leave it out")};
    }
  }
  return c.store == kEtcdStoreName ? FaultOfEtcd(config, use) : FaultOfEmbedded(c);
}

std::vector<std::string> CoordinatorAddresses(const Config& config) {
  std::vector<std::string> addresses = {config.coordinator.address};
  for (std::string& other : SplitNames(config.coordinator.others)) {
    if (other != config.coordinator.address) addresses.push_back(std::move(other));
  }
  return addresses;
}

}  // namespace atolld
