// Gives a key of a config another legal value.
#pragma once

#include <string>
#include <type_traits>
#include <variant>

#include "absl/time/time.h"
#include "daemon/config/config_field.h"

namespace atolld {

// Changes the key's value to another legal one, if the table knows one.
inline void ChangeValue(const ConfigField& field) {
  if (const auto* number = std::get_if<WholeNumber>(&field.value)) {
    std::visit(
        [&](auto* at) {
          *at += static_cast<std::decay_t<decltype(*at)>>(
              *at < number->maximum ? number->multiple_of : -number->multiple_of);
        },
        number->at);
  } else if (const auto* real = std::get_if<RealNumber>(&field.value)) {
    *real->at = *real->at == 0 ? real->maximum / 4 : *real->at / 2;
  } else if (const auto* flag = std::get_if<Flag>(&field.value)) {
    *flag->at = !*flag->at;
  } else if (const auto* span = std::get_if<TimeSpan>(&field.value)) {
    *span->at += absl::Seconds(1);
  } else if (const auto* bytes = std::get_if<ByteCount>(&field.value)) {
    *bytes->at += 1;
  } else if (const auto* rate = std::get_if<LineRate>(&field.value)) {
    *rate->at += 125;
  } else if (const auto* text = std::get_if<Text>(&field.value)) {
    if (text->form == TextForm::kOneOf) {
      *text->at = *text->at == text->choices.back() ? text->choices.front() : text->choices.back();
    } else if (text->form == TextForm::kCodec) {
      *text->at = "int4";
    } else if (field.key == "sources") {
      *text->at = "a:0.25,b:0.75";
    } else if (text->form == TextForm::kSha256) {
      *text->at = std::string(64, 'a');
    } else {
      *text->at = "another";
    }
  }
}

}  // namespace atolld
