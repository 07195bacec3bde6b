"""Which parts of Spark's plans a query may consist of, by class."""

from __future__ import annotations

_CATALYST = "org.apache.spark.sql.catalyst."
PLANS = f"{_CATALYST}plans.logical."
ANALYSIS = f"{_CATALYST}analysis."
EXPRESSIONS = f"{_CATALYST}expressions."


def _classes(package: str, names: str) -> frozenset[str]:
    return frozenset(package + name for name in names.split())


OPERATORS = _classes(
    PLANS,
    """
    Aggregate CTERelationDef CTERelationRef Distinct Except Expand Filter Generate GlobalLimit Intersect Join
    LateralJoin LocalLimit LocalRelation Offset OneRowRelation Pivot Project Range RebalancePartitions
    Repartition RepartitionByExpression ResolvedHint Sample Sort SubqueryAlias Union UnionLoop UnionLoopRef
    Unpivot UnresolvedHint Window WithCTE
    """,
) | {f"{EXPRESSIONS}PipeOperator"}
"""What makes rows from rows. Tables are not among them: each is looked up by name."""

UNRESOLVED = _classes(
    ANALYSIS,
    """
    GetViewColumnByNameAndOrdinal MultiAlias RelationTimeTravel UnresolvedAlias UnresolvedAttribute
    UnresolvedExtractValue UnresolvedFieldName UnresolvedFunction UnresolvedGenerator UnresolvedHaving
    UnresolvedInlineTable UnresolvedNamedLambdaVariable UnresolvedOrdinal UnresolvedRegex UnresolvedRelation
    UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
    UnresolvedTableValuedFunction
    """,
)
"""What stands for names until the analysis knows their meaning."""

VALUES = (
    _classes(
        EXPRESSIONS,
        """
        Abs Acos Acosh Add AddMonths AesDecrypt AesEncrypt Alias And ApproxTopKEstimate ArrayAggregate
        ArrayAppend ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayExists ArrayFilter ArrayForAll
        ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition ArrayPrepend ArrayRemove
        ArrayRepeat ArraySize ArraySort ArraysOverlap ArraysZip ArrayTransform ArrayUnion Ascii Asin Asinh
        AssertTrue Atan Atan2 Atanh AttributeReference Base64 Between Bin BinaryPad BinaryPredicate
        BitLength BitmapAndAgg BitmapBitPosition BitmapBucketNumber BitmapConstructAgg BitmapCount
        BitmapOrAgg BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor BRound CaseWhen Cast
        Cbrt Ceil CheckOverflow CheckOverflowInSum Chr Coalesce Collate Collation CollationKey Collations
        CommonExpressionDef CommonExpressionRef Concat ConcatWs Contains Conv ConvertTimezone Cos Cosh Cot
        Crc32 CreateArray CreateMap CreateNamedStruct Csc CsvToStructs CumeDist CurrentCatalog
        CurrentDatabase CurrentDate CurrentRow$ CurrentTime CurrentTimestamp CurrentTimeZone DateAdd
        DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DatePart DateSub
        DatetimeSub DayName DayOfMonth DayOfWeek DayOfYear Decode DenseRank Divide DivideDTInterval
        DivideInterval DivideYMInterval ElementAt Elt Empty2Null Encode EndsWith EqualNull EqualNullSafe
        EqualTo EulerNumber Exists Exp Explode Expm1 Extract ExtractANSIIntervalDays
        ExtractANSIIntervalHours ExtractANSIIntervalMinutes ExtractANSIIntervalMonths
        ExtractANSIIntervalSeconds ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours
        ExtractIntervalMinutes ExtractIntervalMonths ExtractIntervalSeconds ExtractIntervalYears Factorial
        FindInSet Flatten Floor FormatNumber FormatString FromUnixTime FromUTCTimestamp GeneratorOuter Get
        GetArrayItem GetArrayStructFields GetJsonObject GetMapValue GetStructField GetTimestamp GreaterThan
        GreaterThanOrEqual Greatest Grouping GroupingID Hex HllSketchEstimate HllUnion Hour HoursOfTime
        Hypot If ILike In InitCap Inline InSubquery IntegralDivide IsNaN IsNotNull IsNotUnknown IsNull
        IsUnknown IsValidUTF8 JsonObjectKeys JsonToStructs JsonTuple KllSketchGetNBigint KllSketchGetNDouble
        KllSketchGetNFloat KllSketchGetQuantileBigint KllSketchGetQuantileDouble KllSketchGetQuantileFloat
        KllSketchGetRankBigint KllSketchGetRankDouble KllSketchGetRankFloat KllSketchMergeBigint
        KllSketchMergeDouble KllSketchMergeFloat KllSketchToStringBigint KllSketchToStringDouble
        KllSketchToStringFloat KnownFloatingPointNormalized KnownNotNull KnownNullable Lag LambdaFunction
        LastDay LateralColumnAliasReference LateralSubquery Lead Least Left Length LengthOfJsonArray
        LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny ListQuery Literal LocalTimestamp Log Log10
        Log1p Log2 Logarithm Lower Luhncheck MakeDate MakeDTInterval MakeInterval MakeTime MakeTimestamp
        MakeTimestampFromDateTime MakeTimestampNTZ MakeValidUTF8 MakeYMInterval MapConcat MapContainsKey
        MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapSort MapValues MapZipWith Mask Md5
        MicrosToTimestamp MillisToTimestamp Minute MinutesOfTime MonotonicallyIncreasingID Month MonthName
        MonthsBetween Multiply MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash
        NamedLambdaVariable NaNvl NextDay Not NotLikeAll NotLikeAny Now NthValue NTile NullIf NullIfZero Nvl
        Nvl2 OctetLength Or OuterReference OuterScopeReference Overlay ParseToDate ParseToTimestamp ParseUrl
        PercentRank Pi Pmod PosExplode Pow PreciseTimestampConversion Quarter Quote RaiseError Rand Randn
        RandStr Rank RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr
        Remainder ResolvedCollation Reverse Right Rint RLike Round RoundCeil RoundFloor RowNumber
        ScalarSubquery SchemaOfCsv SchemaOfJson SchemaOfXml Sec Second SecondsOfTime
        SecondsOfTimeWithFraction SecondsToTimestamp SecondWithFraction Sentences Sequence SessionWindow
        Sha1 Sha2 ShiftLeft ShiftRight ShiftRightUnsigned Shuffle Signum Sin Sinh Size Slice SortArray
        SortOrder SoundEx SparkPartitionID SparkVersion SpecifiedWindowFrame SplitPart SQLKeywords Sqrt
        Stack StartsWith StringDecode StringInstr StringLocate StringLPad StringRepeat StringReplace
        StringRPad StringSpace StringSplit StringSplitSQL StringToMap StringTranslate StringTrim
        StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv StructsToJson StructsToXml Substring
        SubstringIndex Subtract SubtractDates SubtractTimes SubtractTimestamps Tan Tanh ThetaDifference
        ThetaIntersection ThetaSketchEstimate ThetaUnion TimeAddInterval TimeDiff TimePart TimestampAdd
        TimestampAddInterval TimestampAddYMInterval TimestampDiff TimeTrunc TimeWindow ToBinary ToCharacter
        ToDegrees ToNumber ToRadians ToTime ToUnixTimestamp ToUTCTimestamp TransformKeys TransformValues
        TruncDate TruncTimestamp TryAdd TryAesDecrypt TryDivide TryElementAt TryEval TryMakeInterval
        TryMakeTimestamp TryMakeTimestampFromDateTime TryMod TryMultiply TryParseUrl TrySubtract TryToBinary
        TryToNumber TryUrlDecode TryValidateUTF8 TypedNullLiteral TypeOf UnaryMinus UnaryPositive UnBase64
        UnboundedFollowing$ UnboundedPreceding$ Unhex Uniform UnixDate UnixMicros UnixMillis UnixSeconds
        UnixTimestamp UpdateFields Upper UrlDecode UrlEncode Uuid ValidateUTF8 WeekDay WeekOfYear
        WidthBucket WindowExpression WindowSpecDefinition WindowTime With XmlToStructs XxHash64 Year
        YearOfWeek ZeroIfNull ZipWith
        """,
    )
    | _classes(
        f"{EXPRESSIONS}aggregate.",
        """
        AggregateExpression AnyValue ApproximatePercentile ApproxTopK ApproxTopKAccumulate ApproxTopKCombine
        Average BitAndAgg BitOrAgg BitXorAgg BoolAnd BoolOr CollectList CollectSet Corr Count CountIf
        CountMinSketchAgg CovPopulation CovSample First HistogramNumeric HllSketchAgg HllUnionAgg
        HyperLogLogPlusPlus KllMergeAggBigint KllMergeAggDouble KllMergeAggFloat KllSketchAggBigint
        KllSketchAggDouble KllSketchAggFloat Kurtosis Last ListAgg Max MaxBy Median Min MinBy Mode
        Percentile PercentileCont PercentileDisc PivotFirst RegrAvgX RegrAvgY RegrCount RegrIntercept RegrR2
        RegrSlope RegrSXX RegrSXY RegrSYY Skewness StddevPop StddevSamp Sum ThetaIntersectionAgg
        ThetaSketchAgg ThetaUnionAgg VariancePop VarianceSamp
        """,
    )
    | _classes(
        EXPRESSIONS,
        """
        st.ST_AsBinary st.ST_GeogFromWKB st.ST_GeomFromWKB st.ST_SetSrid st.ST_Srid variant.IsVariantNull
        variant.ParseJson variant.SchemaOfVariant variant.SchemaOfVariantAgg variant.ToVariantObject
        variant.VariantExplode variant.VariantGet xml.XPathBoolean xml.XPathDouble xml.XPathFloat
        xml.XPathInt xml.XPathList xml.XPathLong xml.XPathShort xml.XPathString
        """,
    )
)
"""What computes values."""

UNRESOLVED_VALUES = _classes(
    EXPRESSIONS,
    """
    Cube GroupingSets NamedArgumentExpression NamePlaceholder$ PipeExpression Rollup SemiStructuredExtract
    UnresolvedCollation UnresolvedNamedLambdaVariable UnresolvedWindowExpression UnspecifiedFrame$
    """,
)
"""What computes values in a parsed plan only: the analysis replaces it."""
