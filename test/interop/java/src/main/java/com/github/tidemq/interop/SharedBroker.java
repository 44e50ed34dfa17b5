package com.github.tidemq.interop;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.ParameterContext;

/**
 * Gives a case its {@link Clients} of the one broker that all cases share which do not stop it. The clients are shut down
 * behind the case, the broker behind the last one, whose exit code then counts.
 */
final class SharedBroker implements ParameterResolver {
    private record Shared(Broker broker) implements CloseableResource {
        @Override
        public void close() throws Exception {
            broker.close();
        }
    }

    private record Owned(Clients clients) implements CloseableResource {
        @Override
        public void close() {
            clients.close();
        }
    }

    private static final ExtensionContext.Namespace NAMESPACE = ExtensionContext.Namespace.create(SharedBroker.class);

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
        return parameter.getParameter().getType() == Clients.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
        Shared shared = context.getRoot().getStore(NAMESPACE).getOrComputeIfAbsent("broker", k -> {
            try {
                return new Shared(Broker.open("shared"));
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }, Shared.class);
        Owned owned = new Owned(new Clients(shared.broker().addr()));
        context.getStore(NAMESPACE).put("clients", owned);
        return owned.clients();
    }
}
