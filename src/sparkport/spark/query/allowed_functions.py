"""Which of Spark's functions a query may call, and which not and why.

Every function that Spark registers is in one of these lists, which a test checks against the registry of the
Spark that is installed: a function that a newer version adds is refused until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint
    kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg max max_by mean median min
    min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop
    stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    var_pop var_samp variance
    array array_append array_compact array_contains array_distinct array_except array_insert array_intersect
    array_join array_max array_min array_position array_prepend array_remove array_repeat array_size
    array_union arrays_overlap arrays_zip flatten get sequence shuffle slice sort_array
    & << >> >>> ^ bit_count bit_get getbit shiftleft shiftright shiftrightunsigned | ~
    cardinality concat element_at reverse size try_element_at
    between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull
    bigint binary boolean cast date decimal double float int smallint string time timestamp tinyint
    from_csv schema_of_csv to_csv
    add_months convert_timezone curdate current_date current_time current_timestamp current_timezone
    date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff
    datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour
    last_day localtimestamp make_date make_dt_interval make_interval make_time make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_ym_interval minute month monthname months_between next_day
    now quarter second session_window time_diff time_trunc timestamp_micros timestamp_millis
    timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_date unix_micros unix_millis
    unix_seconds unix_timestamp weekday weekofyear window window_time year
    explode explode_outer inline inline_outer posexplode posexplode_outer stack
    crc32 hash md5 sha sha1 sha2 xxhash64
    from_json get_json_object json_array_length json_object_keys json_tuple schema_of_json to_json
    aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys
    transform_values zip_with
    map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
    str_to_map
    % * + - / abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc
    degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi
    pmod positive pow power radians rand randn random rint round sec sign signum sin sinh sqrt tan tanh
    try_add try_divide try_mod try_multiply try_subtract unhex uniform width_bucket
    aes_decrypt aes_encrypt approx_top_k_estimate assert_true bitmap_bit_position bitmap_bucket_number
    bitmap_count current_catalog current_database current_schema hll_sketch_estimate hll_union
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
    kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
    kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
    kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
    kll_sketch_to_string_float monotonically_increasing_id raise_error spark_partition_id theta_difference
    theta_intersection theta_sketch_estimate theta_union try_aes_decrypt typeof uuid version
    ! < <= <=> = == > >= and equal_null ilike in isnan isnotnull isnull like not or regexp regexp_like rlike
    st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws contains
    decode elt encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 lcase
    left len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay
    position printf quote randstr regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace
    regexp_substr repeat replace right rpad rtrim sentences soundex space split split_part startswith substr
    substring substring_index to_binary to_char to_number to_varchar translate trim try_to_binary
    try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8
    named_struct struct
    parse_url try_parse_url try_url_decode url_decode url_encode
    is_variant_null parse_json schema_of_variant schema_of_variant_agg to_variant_object try_parse_json
    try_variant_get variant_get
    cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    from_xml schema_of_xml to_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long
    xpath_number xpath_short xpath_string
    """
)
"""The functions of one value, of a group and of a window."""

_CALLS_JAVA = "it calls Java by name"
_READS_FILES = "its arguments can name files to read"
_TELLS_FILES = "it tells where the files of a table are"
_TELLS_USER = "it tells which user runs the server"

REFUSED_FUNCTIONS: Mapping[str, str] = {
    "java_method": _CALLS_JAVA,
    "reflect": _CALLS_JAVA,
    "try_reflect": _CALLS_JAVA,
    "from_avro": _READS_FILES,
    "to_avro": _READS_FILES,
    "schema_of_avro": _READS_FILES,
    "from_protobuf": _READS_FILES,
    "to_protobuf": _READS_FILES,
    "input_file_block_length": _TELLS_FILES,
    "input_file_block_start": _TELLS_FILES,
    "input_file_name": _TELLS_FILES,
    "current_user": _TELLS_USER,
    "session_user": _TELLS_USER,
    "user": _TELLS_USER,
}

GENERATORS = _names(
    """
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack variant_explode
    variant_explode_outer
    """
)
"""What LATERAL VIEW may call."""

TABLE_FUNCTIONS = GENERATORS | {"range", "collations", "sql_keywords"}
"""What may stand in FROM."""

REFUSED_TABLE_FUNCTIONS: Mapping[str, str] = {
    "python_worker_logs": "it tells what other statements have logged",
    "table_changes": "use sparkport.table_changes('schema.table', from, to)",
    "table_changes_by_path": _READS_FILES,
}
