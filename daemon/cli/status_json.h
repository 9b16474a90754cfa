// What a coordinator tells of a run, as JSON for programs and as text for people.
//
// JSON follows admin.proto, name by name; digests are hex. Pure functions, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"

namespace atolld {

nlohmann::ordered_json RunStatusJson(const v1::RunStatus& status);
nlohmann::ordered_json PeersJson(const v1::RunStatus& status);
nlohmann::ordered_json PeerJson(const v1::PeerStatus& peer);
nlohmann::ordered_json LineageJson(const v1::Lineage& lineage);
nlohmann::ordered_json HeaderJson(const v1::EntryHeader& header);

std::vector<std::string> RunStatusText(const v1::RunStatus& status);
std::vector<std::string> RoundsText(const v1::RunStatus& status);  // the newest first
std::vector<std::string> PeersText(const v1::RunStatus& status);
std::vector<std::string> PeerText(const v1::PeerStatus& peer);
// What keeps a peer from training, its owner's will first; or else what was noticed of its updates.
std::string WhyIdle(const v1::PeerStatus& peer);
// "pass 1, 34.2 % (spent 12,345; held 900; returned 0)"
std::string DataText(const v1::DataStatus& data);
// "96.1 %", "-": not known.
std::string UtilisationText(const v1::Utilisation& utilisation);
// "1.2 MB of 1.3 MB", sent and received while workers trained, of all; "-": not known.
std::string HiddenText(const v1::Utilisation& utilisation);
// "85,000 tokens a round; these peers make 57,600: more peers still help", "unknown: " and why
std::string NoiseText(const v1::NoiseStatus& noise);

// What is spent of differential privacy: "epsilon 1.234 at delta 1e-05, of 3". "": the run has
// none.
std::string PrivacyText(const v1::PrivacySpec& privacy, double epsilon);
std::string NoiseVerdict(const v1::NoiseStatus& noise);  // of a known one, its last words
std::vector<std::string> HeadersText(const std::vector<v1::EntryHeader>& headers);

// A figure that may be unknown.
nlohmann::ordered_json OrNull(const std::optional<double>& value);
nlohmann::ordered_json OrNull(const std::optional<int>& value);

// One object or list, indented, in ASCII, whatever bytes its strings hold: what is beyond it, and
// what a terminal would obey, is escaped, and what is no UTF-8 becomes U+FFFD.
std::string JsonText(const nlohmann::ordered_json& json);
// The same on one line.
std::string JsonLine(const nlohmann::ordered_json& json);

}  // namespace atolld
