import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The commands that the admin client carries out. */
final class Topics {
    private final Admin admin;

    Topics(String brokers) {
        admin = Admin.create(Client.properties(brokers, "default.api.timeout.ms", Client.LIMIT_MS, "request.timeout.ms", 15_000));
    }

    void create(Client.Arguments a) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (String pair : a.get("configs").split(",")) {
            int at = pair.indexOf(':');
            if (at > 0) configs.put(pair.substring(0, at), pair.substring(at + 1));
        }
        NewTopic topic = new NewTopic(a.get("topic"), a.integer("partitions"), (short) 1).configs(configs);
        admin.createTopics(List.of(topic)).all().get();
    }

    int partitions(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    void delete(String topic) throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
    }

    void grow(String topic, int partitions) throws Exception {
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(partitions))).all().get();
    }

    /** Deletes the records below an offset and returns the new log start. */
    long trim(String topic, int partition, long offset) throws Exception {
        TopicPartition tp = new TopicPartition(topic, partition);
        return admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(offset))).lowWatermarks().get(tp).get().lowWatermark();
    }

    void deleteGroup(String group) throws Exception {
        admin.deleteConsumerGroups(List.of(group)).all().get();
    }

    void reset(Client.Arguments a) throws Exception {
        TopicPartition tp = new TopicPartition(a.get("topic"), a.integer("partition"));
        Client.Position to = Client.Position.parse(a.get("to"));
        long offset = switch (to.form()) {
            case "offset" -> to.value();
            case "start" -> listed(tp, OffsetSpec.earliest());
            case "end" -> listed(tp, OffsetSpec.latest());
            case "timestamp" -> listed(tp, OffsetSpec.forTimestamp(to.value()));
            case "shift" -> committed(a.get("group"), tp) + to.value();
            default -> throw new IllegalArgumentException("unknown position " + to.form());
        };
        admin.alterConsumerGroupOffsets(a.get("group"), Map.of(tp, new OffsetAndMetadata(offset))).all().get();
    }

    private long listed(TopicPartition tp, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(tp, spec)).partitionResult(tp).get().offset();
    }

    private long committed(String group, TopicPartition tp) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(tp).offset();
    }
}
