// An object that JavaScript holds and whose methods throw typed errors.
#pragma once

#include <napi.h>

#include "bindings/errors.h"

namespace isopro::bindings {

template <typename T>
class Wrapped : public Napi::ObjectWrap<T> {
 protected:
  using Napi::ObjectWrap<T>::ObjectWrap;
  using Method = Napi::Value (T::*)(const Napi::CallbackInfo&);

  // For DefineClass: what `body` throws arrives as toJsError words it.
  template <Method body>
  static Napi::ClassPropertyDescriptor<T> method(const char* name) {
    return Napi::ObjectWrap<T>::InstanceMethod(name, static_cast<Method>(&Wrapped::template call<body>));
  }

 private:
  template <Method body>
  Napi::Value call(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] { return (static_cast<T*>(this)->*body)(info); });
  }
};

}  // namespace isopro::bindings
