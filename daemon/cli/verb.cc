#include "daemon/cli/verb.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <utility>

namespace atolld {

Option Option::Required() const { return Option(option_->required()); }

template <typename T>
Option Option::Range(T least, T most) const {
  return Option(option_->check(CLI::Range(least, most)));
}
template Option Option::Range(int, int) const;
template Option Option::Range(uint32_t, uint32_t) const;
template Option Option::Range(uint64_t, uint64_t) const;
template Option Option::Range(double, double) const;

Option Option::Positive() const { return Option(option_->check(CLI::PositiveNumber)); }

Option Option::OneOf(std::vector<std::string> names) const {
  return Option(option_->check(CLI::IsMember(std::move(names))));
}

Option Option::Excludes(Option other) const { return Option(option_->excludes(other.option_)); }

template <typename T>
Option Verb::Add(const std::string& name, T& value, const std::string& meaning) const {
  return Option(app_->add_option(name, value, meaning));
}
template Option Verb::Add(const std::string&, std::string&, const std::string&) const;
template Option Verb::Add(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Verb::Add(const std::string&, int&, const std::string&) const;
template Option Verb::Add(const std::string&, uint32_t&, const std::string&) const;
template Option Verb::Add(const std::string&, uint64_t&, const std::string&) const;
template Option Verb::Add(const std::string&, double&, const std::string&) const;
template Option Verb::Add(const std::string&, std::optional<int64_t>&, const std::string&) const;
template Option Verb::Add(const std::string&, std::optional<uint64_t>&, const std::string&) const;

Option Verb::Flag(const std::string& name, bool& value, const std::string& meaning) const {
  return Option(app_->add_flag(name, value, meaning));
}

void Verb::Hide() const { app_->group(""); }

}  // namespace atolld
