#!/bin/bash
set -e
cd /app
echo pepper > plan.txt
echo knife > final.txt
echo copper > report.txt
